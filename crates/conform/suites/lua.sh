# See suites.rs for the verbs.
set -u
case $1 in
prepare) echo build && echo build-and-run ;;
stage)
    cp -r "$SUITE/source/src" .
    echo '#define DEB_HOST_MULTIARCH "any"' > src/lua5.4-deb-multiarch.h
    # Debian's own makefile wants libtool; this is what the authors' does.
    cat > Makefile << 'MAKE'
vpath %.c src
BASE := $(patsubst src/%.c,%.o,$(filter-out src/lua.c src/luac.c,$(wildcard src/*.c)))
CFLAGS := -O1 -w -Isrc -DLUA_USE_LINUX
all: lua luac
liblua.a: $(sort $(BASE))
	@ar rcD $@ $^
lua: lua.o liblua.a
	@gcc -o $@ lua.o liblua.a -lm -ldl -Wl,-E
luac: luac.o liblua.a
	@gcc -o $@ luac.o liblua.a -lm -ldl
%.o: %.c
	@gcc $(CFLAGS) -c -o $@ $<
MAKE
    ;;
run)
    make -j2 all
    echo "status $?"
    ls ./*.o | wc -l
    sha256sum ./*.o liblua.a
    [ "$2" = build ] && exit
    echo 'local n = 0 for i = 1, 3000000 do n = (n * 31 + i) % 1000003 end print(n, _VERSION)' > sum.lua
    ./luac -o sum.luac sum.lua && ./lua sum.luac
    touch -d 2001-01-01 lapi.o && make -j2 all && ./lua -e 'print(("x"):rep(3))'
    ;;
esac
