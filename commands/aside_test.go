package commands

import (
	"fmt"
	"strings"
	"testing"
)

// TestAsideStores: what a command stores that runs aside is what it stores within EXEC, where it
// does not, and is there after a restart.
func TestAsideStores(t *testing.T) {
	h := newHarness(t)
	const n = 4000
	pad := strings.Repeat("x", 70)
	for i := range n {
		h.do("SADD", "s", fmt.Sprint(i, pad))
		h.do("SADD", "s2", fmt.Sprint(i+n/2, pad))
		h.do("ZADD", "z", fmt.Sprint(i%100), fmt.Sprint(i, pad))
		h.do("RPUSH", "l", fmt.Sprint(i, pad))
	}
	h.do("SET", "text", strings.Repeat("text", longValue))
	h.do("SET", "small", "x")
	h.do("PEXPIRE", "text", "100000")
	for _, command := range []string{
		"SUNIONSTORE DST s s2", "SINTERSTORE DST s s2", "SDIFFSTORE DST s s2", "SDIFFSTORE DST s s",
		"ZUNIONSTORE DST 2 z s WEIGHTS 2 1", "ZINTERSTORE DST 2 z s2", "ZDIFFSTORE DST 2 z s2", "ZRANGESTORE DST z 5 3000",
		"SORT l ALPHA DESC STORE DST", "COPY s DST REPLACE", "COPY text DST REPLACE", "COPY l DST",
		"SET DST " + strings.Repeat("set", longStore/2),
	} {
		for _, before := range []string{"", "SET DST old", "SADD DST old", "COPY s2 DST"} {
			reply := map[string]string{}
			dumps := map[string]string{}
			for _, dst := range []string{"within", "aside"} {
				h.do("DEL", dst)
				if before != "" {
					h.do(strings.Fields(strings.ReplaceAll(before, "DST", dst))...)
				}
				words := strings.Fields(strings.ReplaceAll(command, "DST", dst))
				if dst == "within" {
					h.do("MULTI")
					h.do(words...)
					reply[dst] = strings.Trim(h.do("EXEC"), "[]")
				} else {
					reply[dst] = h.do(words...)
				}
				dumps[dst] = h.do("OBJECT", "ENCODING", dst) + h.do("PTTL", dst) + h.do("SORT", dst, "ALPHA") + h.do("GET", dst) + h.do("TYPE", dst)
			}
			if reply["aside"] != reply["within"] || dumps["aside"] != dumps["within"] {
				t.Errorf("%.60s behind %q gives %s aside, %s within EXEC, or other values", command, before, reply["aside"], reply["within"])
			}
		}
		h.do("COPY", "aside", fmt.Sprintf("kept:%.60s", command))
	}
	dumps := func() (all string) {
		for _, k := range strings.Fields(strings.NewReplacer("[", "", "]", "", `"`, "", ",", " ").Replace(h.do("KEYS", "s*"))) {
			all += k + h.do("SORT", k, "ALPHA")
		}
		return all + h.do("SORT", "aside", "ALPHA") + h.do("SORT", "kept:SORT l ALPHA DESC STORE DST", "ALPHA")
	}
	want := dumps()
	h.reopen()
	if got := dumps(); got != want {
		t.Error("after a restart there is something else")
	}
}
