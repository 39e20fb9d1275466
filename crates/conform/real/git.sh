set -e
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=C GIT_COMMITTER_EMAIL=c@example.org
export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000' GIT_CONFIG_NOSYSTEM=1
git config --global init.defaultBranch main
git config --global pack.threads 2
git config --global protocol.file.allow always
git init -q one
cd one
mkdir d
for i in $(seq 60); do seq $i 400 > d/f$i; done
git add . && git commit -qm first
for i in $(seq 5); do seq $i 2 300 > d/f$i; git commit -qam "change $i"; done
git checkout -qb side HEAD~3
sed -i 's/^4.$/X&/' d/f40
git commit -qam side
git checkout -q main
git merge -q -m merged side
git tag -a -m tag v1
git log --oneline --graph | cat
git diff --stat v1~4 v1 | cat
git rebase -q --onto side HEAD~1 && git log -1 --format=%s
git reset -q --hard v1
git repack -adq --window=5 && git count-objects -v | grep -E 'packs|in-pack'
git fsck --full 2>&1 | tail -1
git bisect start HEAD HEAD~5 > /dev/null 2>&1
git bisect run grep -q '^4$' d/f3 2>/dev/null | grep 'first bad'
git bisect reset > /dev/null 2>&1
cd ..
git clone -q one two
git clone -q --depth 1 "file://$PWD/one" three 2>/dev/null
git -C three rev-list --count HEAD
cd two
echo more > new && git add new && git commit -qm new
git push -q origin HEAD:refs/heads/pushed
git format-patch -q -1 -o .. && git -C ../one am -q ../0001-new.patch
git -C ../one rev-parse HEAD pushed
git worktree add -q ../tree side && git worktree list | wc -l
git archive --format=tar HEAD | tar -t | wc -l
git grep -c '^299$' | wc -l
git stash list; echo x >> new; git stash -q; git stash pop -q; git status --short
cd ..
rm -rf one two three tree .gitconfig 0001-new.patch
