package commands

import (
	"strings"
	"testing"
)

func TestACL(t *testing.T) {
	h := newHarness(t)
	h.run(`
		ACL WHOAMI -> "default"
		ACL WHOAMI x -> -ERR wrong number of arguments for 'acl|whoami' command
		ACL USERS -> ["default"]
		ACL LIST -> ["user default on nopass sanitize-payload ~* &* +@all"]
		ACL GETUSER default -> ["flags", ["on", "nopass", "sanitize-payload"], "passwords", [], "commands", "+@all", "keys", "~*", "channels", "&*", "selectors", []]
		ACL GETUSER nosuch -> nil
		ACL CAT foo -> -ERR Unknown category 'foo'
		ACL CAT a b -> -ERR wrong number of arguments for 'acl|cat' command
		ACL CAT GEO -> []
		ACL DELUSER foo bar -> 0
		ACL DELUSER foo default -> -ERR The 'default' user cannot be removed
		ACL DRYRUN default GET k -> +OK
		ACL DRYRUN default GET -> -ERR wrong number of arguments for 'get' command
		ACL DRYRUN default config get -> -ERR wrong number of arguments for 'config|get' command
		ACL DRYRUN default nosuch -> -ERR Command 'nosuch' not found
		ACL DRYRUN default config nosuch -> -ERR Command 'config' not found
		ACL DRYRUN nosuch GET k -> -ERR User 'nosuch' not found
		ACL SETUSER alice on -> -ERR there is no user but default, who may do anything: CONFIG SET requirepass sets the password
		ACL GENPASS x -> -ERR value is not an integer or out of range
		ACL GENPASS 0 -> -ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096
		ACL GENPASS 4097 -> -ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096
		config requirepass foobar
		ACL LIST -> ["user default on #c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2 sanitize-payload ~* &* +@all"]
		proto 3
		ACL GETUSER default -> {"flags": ~["on", "sanitize-payload"], "passwords": ["c3ab8ff13720e8ad9047dd39466b3c8974e592c2fa383d4a3960714caef0c4f2"], "commands": "+@all", "keys": "~*", "channels": "&*", "selectors": []}
		proto 2
	`)
	if got := h.do("ACL", "CAT"); !strings.HasPrefix(got, `["keyspace", "read", "write", `) {
		t.Errorf("categories %s", got)
	}
	if got := h.do("ACL", "CAT", "connection"); !strings.Contains(got, `"client|id"`) || strings.Contains(got, `"get"`) {
		t.Errorf("commands of connection: %s", got)
	}
	for bits, digits := range map[string]int{"1": 1, "5": 2, "256": 64, "4096": 1024} {
		first, second := h.do("ACL", "GENPASS", bits), h.do("ACL", "GENPASS", bits)
		if len(first) != digits+len(`""`) || digits > 2 && first == second {
			t.Errorf("ACL GENPASS %s: %s, then %s", bits, first, second)
		}
	}
}
