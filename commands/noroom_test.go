package commands

import (
	"slices"
	"strings"
	"testing"
)

// On a full disk no further log segment can be made, and the space in the last one is reserved for
// commands that free memory or disk. TestNoRoom lists the commands that may run then, by how much
// of that segment must be free. A new command belongs in one of the lists.
func TestNoRoom(t *testing.T) {
	want := map[string]string{
		"refused before the last segment": "keyp.delay|extend keyp.delay|nack keyp.delay|pop keyp.delay|reschedule move rename renamenx",
		"until half of it": "expire expireat expiremember expirememberat getex hgetex hpersist keyp.lease|renew " +
			"keyp.limit|return persist pexpire pexpireat pexpirememberat xack xcfgset xclaim " +
			"xgroup|setid xnack xreadgroup",
		"nearly to the end": "blmpop blpop brpop bzmpop bzpopmax bzpopmin del delex flushall flushdb function|delete " +
			"function|flush getdel hdel hgetdel keyp.delay|ack keyp.delay|cancel keyp.lease|release " +
			"keyp.limit|reset keyp.outbox|del keyp.policy|apply keyp.policy|del lmpop lpop lrem ltrim " +
			"migrate rpop smove spop srem swapdb unlink xackdel xautoclaim xdel xdelex " +
			"xgroup|delconsumer xgroup|destroy xtrim zmpop zpopmax zpopmin zrem zremrangebylex " +
			"zremrangebyrank zremrangebyscore",
	}
	got := map[string][]string{}
	for _, spec := range NewTable().specs {
		if !spec.Is(Write) || spec.Is(DenyOOM) {
			continue
		}
		class := "nearly to the end"
		switch {
		case spec.Is(restates):
			class = "refused before the last segment"
		case spec.Is(keeps):
			class = "until half of it"
		}
		got[class] = append(got[class], spec.full)
	}
	for class, names := range want {
		slices.Sort(got[class])
		if list := strings.Join(got[class], " "); list != names {
			t.Errorf("%s:\n%s\nwant\n%s", class, list, names)
		}
	}
}

// TestScriptOnFullDisk: when the disk becomes full, a script that has already written something
// continues, as in Redis, so that nothing is left half done. A script that has written nothing yet
// is refused.
func TestScriptOnFullDisk(t *testing.T) {
	h := newHarness(t)
	h.close()
	h.log = &hookedLog{line: "now", hook: func() {
		h.store.SetDiskReserve(1 << 62)
		h.store.Manual().Room()
	}}
	h.open()
	const script = "redis.call('set', KEYS[1], 'v') redis.log(redis.LOG_WARNING, 'now') redis.call('set', KEYS[2], 'v') return 1"
	if got := h.do("EVAL", script, "2", "{x}1", "{x}2"); got != "1" {
		t.Errorf("a script during which the disk becomes full: %s", got)
	}
	if got := h.do("EVAL", script, "2", "{y}1", "{y}2"); !strings.HasPrefix(got, "-MISCONF") {
		t.Errorf("a script on a full disk: %s", got)
	}
	if got := h.do("EXISTS", "{x}1", "{x}2", "{y}1", "{y}2"); got != "2" {
		t.Errorf("EXISTS: %s", got)
	}
}

// TestBackupOnFullDisk: on a nearly full disk no backup begins, and the reply says why. When there
// is room again, a backup begins.
func TestBackupOnFullDisk(t *testing.T) {
	h := newHarness(t)
	h.store.SetDiskReserve(1 << 62)
	if got := h.do("KEYP.BACKUP", "BEGIN"); got != "-ERR no backup begins: the disk is nearly full" {
		t.Errorf("on a nearly full disk: %s", got)
	}
	h.store.SetDiskReserve(0)
	if got := h.do("KEYP.BACKUP", "BEGIN"); !strings.Contains(got, "lsn") {
		t.Errorf("when there is room again: %s", got)
	}
	if got := h.do("KEYP.BACKUP", "END"); got != "+OK" {
		t.Error(got)
	}
}
