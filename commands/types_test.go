package commands

import (
	"strings"
	"testing"

	"keyp/storage"
	"keyp/storage/object"
)

// madeOfType has a command for each type that creates the key k.
var madeOfType = map[object.Type]string{
	object.TypeString: "SET k v",
	object.TypeHash:   "HSET k f v g w",
	object.TypeList:   "RPUSH k a b",
	object.TypeSet:    "SADD k a b",
	object.TypeZSet:   "ZADD k 1 a 2 b",
	object.TypeStream: "XADD k 1-1 f v",
	object.TypeLease:  "KEYP.LEASE ACQUIRE k owner 60000",
	object.TypeLimit:  "KEYP.LIMIT TAKE k 1 TOKENS 5 1 1000 WINDOW 5 60000",
	object.TypeDelay:  "KEYP.DELAY ADD k id 1700000000500 payload",
}

// movesNot are types whose values change when the key is renamed or copied. A lease then has
// another token.
var movesNot = map[object.Type]bool{object.TypeLease: true}

// TestEveryType: commands for keys of any type work for each type. The test fails for a new type
// that is not listed here.
func TestEveryType(t *testing.T) {
	for _, typ := range storage.Types {
		t.Run(typ.String(), func(t *testing.T) {
			h := newHarness(t)
			if madeOfType[typ] == "" {
				t.Fatal("nothing makes a key of this type")
			}
			if reply := h.runOne(madeOfType[typ]); strings.HasPrefix(reply, "-") {
				t.Fatal(reply)
			}
			h.run(`
				TYPE k -> +` + typ.String() + `
				SCAN 0 TYPE ` + typ.String() + ` -> ["0", ["k"]]
				does OBJECT ENCODING k
				does OBJECT IDLETIME k`)
			if typ.OwnDeadline() { // Redis has no such type
				h.run(`OBJECT ENCODING k -> "` + typ.String() + `"`)
			}
			if n := h.do("MEMORY", "USAGE", "k"); len(n) < 2 || n[0] < '1' || n[0] > '9' {
				t.Errorf("MEMORY USAGE replies %s", n)
			}
			whole, one := h.digest("DIGEST"), h.digest("DIGEST-VALUE", "k")
			if strings.Trim(whole, "+\"0") == "" || strings.Trim(one, "[]+\"0") == "" {
				t.Errorf("the digests are %s and %s", whole, one)
			}
			same := func(what string) {
				t.Helper()
				if movesNot[typ] && what != "restart" {
					return
				}
				if got := h.digest("DIGEST"); got != whole {
					t.Errorf("%s: the digest of all is %s, was %s", what, got, whole)
				}
				if got := h.digest("DIGEST-VALUE", "k"); got != one {
					t.Errorf("%s: the digest is %s, was %s", what, got, one)
				}
			}
			h.reopen()
			same("restart")
			h.run(`
				RENAME k other -> +OK
				EXISTS k -> 0
				RENAME other k -> +OK`)
			same("RENAME")
			h.run(`
				MOVE k 1 -> 1
				SWAPDB 0 1 -> +OK`)
			same("MOVE")
			if !movesNot[typ] {
				h.run(`
					COPY k other -> 1
					DEL k -> 1
					RENAME other k -> +OK`)
				same("COPY")
			}
			payload := h.dump("k")
			ms := max("0", strings.TrimPrefix(h.do("PTTL", "k"), "-1"))
			h.run(`DEL k -> 1`)
			if whole == h.digest("DIGEST") {
				t.Error("the digest does not know the key")
			}
			if reply := h.do("RESTORE", "k", ms, payload); reply != "+OK" {
				t.Fatalf("RESTORE: %s", reply)
			}
			same("RESTORE")
			h.reopen()
			same("restart after RESTORE")
			h.run(`
				PEXPIRE k 50 -> 1
				reopen
				advance 49ms
				EXISTS k -> 1
				advance 1ms
				EXISTS k -> 0
				TYPE k -> +none`)
		})
	}
}
