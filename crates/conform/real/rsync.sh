set -e
mkdir -p a/x a/y
for i in $(seq 80); do seq $i 600 > a/x/f$i; done
head -c 3000000 /dev/zero | tr '\0' 'z' > a/y/big
ln -s ../x/f1 a/y/link
ln a/x/f2 a/y/hard
chmod 600 a/x/f3
find a -exec touch -h -d 2020-02-02 {} +
rsync -aH --stats a/ b/ | grep -E 'Number of (created|regular)|Total file size'
diff -r a b && echo equal
seq 5 > a/x/f5
rm a/x/f6
printf middle | dd of=a/y/big bs=1 seek=1500000 conv=notrunc 2>/dev/null
touch -d 2021-03-03 a/x/f5 a/y/big a/x a/y a
rsync -aHi --delete --no-whole-file --checksum a/ b/
diff -r a b && echo equal
rsync -a --bwlimit=2000 --partial a/y/big c
cmp a/y/big c
rsync -a --compress --include='*/' --include='f1*' --exclude='*' a/ d/
find d -type f | wc -l
rsync none e 2>/dev/null || echo "status $?"
rsync -n --list-only a/x/ | wc -l
rm -rf a b c d
