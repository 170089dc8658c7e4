package commands

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"keyp/internal/config"
	"keyp/storage"
)

// TestNoCluster: the commands by which clients detect a cluster reply that cluster mode is off.
func TestNoCluster(t *testing.T) {
	newHarness(t).run(`
		CLUSTER INFO -> -ERR This instance has cluster support disabled
		CLUSTER slots -> -ERR This instance has cluster support disabled
		CLUSTER SHARDS -> -ERR This instance has cluster support disabled
		CLUSTER KEYSLOT k -> -ERR This instance has cluster support disabled
		CLUSTER GETKEYSINSLOT 1 10 -> -ERR This instance has cluster support disabled
		CLUSTER HELP -> -ERR This instance has cluster support disabled
		READONLY -> -ERR This instance has cluster support disabled
		READWRITE -> -ERR This instance has cluster support disabled
		ASKING -> -ERR This instance has cluster support disabled
		CLUSTER -> -ERR wrong number of arguments for 'cluster' command
		CLUSTER KEYSLOT -> -ERR wrong number of arguments for 'cluster|keyslot' command
		READONLY x -> -ERR wrong number of arguments for 'readonly' command
		CLUSTER FOO -> -ERR unknown subcommand 'FOO'. Try CLUSTER HELP.
	`)
}

func clusterConfig(t *testing.T) *config.Config {
	cfg, err := config.Load([]string{"--cluster-enabled", "yes"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// clustered returns a harness in cluster mode, with all slots or with none.
func clustered(t *testing.T, slots bool) *harness {
	h := configured(t, clusterConfig(t))
	h.env.Host = listening{}
	if slots {
		h.run("CLUSTER ADDSLOTSRANGE 0 16383 -> +OK")
	}
	return h
}

// listening is a Host that listens on a socket, a plain port and a TLS port.
type listening struct{ Host }

func (listening) Listeners() []Listener {
	return []Listener{{"unix", "/run/keyp.sock"}, {"tcp", "127.0.0.1:7000"}, {"tls", "[::1]:7001"}}
}
func (listening) Port() int { return 7000 }
func (listening) Wake()     {}

// TestClusterSlots: a node serves the slots that it was given, and remembers them.
func TestClusterSlots(t *testing.T) {
	h := clustered(t, false)
	id := strings.Trim(h.do("CLUSTER", "MYID"), `"`)
	if len(id) != 40 {
		t.Fatalf("the node's id is %s", id)
	}
	h.run(strings.ReplaceAll(`
		SET k v -> -CLUSTERDOWN Hash slot not served
		PING -> +PONG
		EVAL "return 1" 0 -> 1
		CLUSTER KEYSLOT foo -> 12182
		CLUSTER KEYSLOT {foo}.bar -> 12182
		CLUSTER SLOTS -> []
		CLUSTER ADDSLOTS 1 2 16384 -> -ERR Invalid or out of range slot
		CLUSTER ADDSLOTS 1 x -> -ERR Invalid or out of range slot
		CLUSTER ADDSLOTS 1 2 1 -> -ERR Slot 1 specified multiple times
		CLUSTER ADDSLOTS 1 2 3 -> +OK
		CLUSTER ADDSLOTS 3 -> -ERR Slot 3 is already busy
		CLUSTER DELSLOTS 4 -> -ERR Slot 4 is already unassigned
		CLUSTER DELSLOTS 2 -> +OK
		CLUSTER ADDSLOTSRANGE 9 8 -> -ERR start slot number 9 is greater than end slot number 8
		CLUSTER ADDSLOTSRANGE 8 9 10 -> -ERR wrong number of arguments for 'cluster|addslotsrange' command
		CLUSTER ADDSLOTSRANGE 12182 12182 100 199 -> +OK
		CLUSTER SLOTS -> [[1, 1, ["", 7000, "<id>", []]], [3, 3, ["", 7000, "<id>", []]], [100, 199, ["", 7000, "<id>", []]], [12182, 12182, ["", 7000, "<id>", []]]]
		CLUSTER NODES -> "<id> :7000@17000 myself,master - 0 0 0 connected 1 3 100-199 12182\n"
		SET foo v -> -CLUSTERDOWN The cluster is down
		CONFIG SET cluster-allow-reads-when-down yes -> +OK
		SET foo v -> -CLUSTERDOWN The cluster is down and only accepts read commands
		GET foo -> nil
		CONFIG SET cluster-require-full-coverage no -> +OK
		SET foo v -> +OK
		SET bar v -> -CLUSTERDOWN Hash slot not served
		CLUSTER BUMPEPOCH -> +BUMPED 1
		CLUSTER BUMPEPOCH -> +STILL 1
		CLUSTER SET-CONFIG-EPOCH 5 -> -ERR Node config epoch is already non-zero
		CLUSTER FLUSHSLOTS -> -ERR DB must be empty to perform CLUSTER FLUSHSLOTS.
		CLUSTER RESET -> -ERR CLUSTER RESET can't be called with master nodes containing keys
		CLUSTER DELSLOTSRANGE 0 3 -> -ERR Slot 0 is already unassigned
		CLUSTER DELSLOTSRANGE 100 198 3 3 -> +OK
		CLUSTER REPLICAS <id> -> []
		CLUSTER REPLICAS 01 -> -ERR Unknown node 01
		CLUSTER COUNT-FAILURE-REPORTS <id> -> 0
		CLUSTER FORGET <id> -> -ERR I tried hard but I can't forget myself...
		CLUSTER LINKS -> []
		CLUSTER SAVECONFIG -> +OK
	`, "<id>", id))
	const info = "cluster_state:ok\r\ncluster_slots_assigned:3\r\ncluster_slots_ok:3\r\ncluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:1\r\ncluster_size:1\r\ncluster_current_epoch:1\r\ncluster_my_epoch:1\r\n"
	for _, restarted := range []bool{false, true} {
		if restarted {
			h.reopen()
			h.env.Host = listening{}
		}
		if got := h.do("CLUSTER", "INFO"); !strings.HasPrefix(got, strings.Trim(strconv.Quote(info),
			"\"")) && !strings.Contains(got, strings.Trim(strconv.Quote(info), `"`)) {
			t.Errorf("restarted: %v: %s", restarted, got)
		}
		h.run(strings.ReplaceAll(`
			CLUSTER MYID -> "<id>"
			CLUSTER NODES -> "<id> :7000@17000 myself,master - 0 0 1 connected 1 199 12182\n"
			GET foo -> "v"
		`, "<id>", id))
	}
	h.run(`
		DEL foo -> 1
		CLUSTER RESET SOFTLY -> -ERR syntax error
		CLUSTER RESET -> +OK
		CLUSTER SLOTS -> []
	`)
	if h.do("CLUSTER", "MYID") != strconv.Quote(id) {
		t.Error("a soft reset gives another id")
	}
	h.run("CLUSTER RESET HARD -> +OK\nCLUSTER SET-CONFIG-EPOCH 5 -> +OK")
	if h.do("CLUSTER", "MYID") == strconv.Quote(id) {
		t.Error("a hard reset gives no other id")
	}
}

// TestClusterCrossSlot: all keys of a command must belong to one slot, however the command names
// them.
func TestClusterCrossSlot(t *testing.T) {
	h := clustered(t, true)
	h.run(`
		MSET {a}1 x {a}2 y -> +OK
		MSET {a}1 x {b}2 y -> -CROSSSLOT Keys in request don't hash to the same slot
		MGET {a}1 {a}2 -> ["x", "y"]
		SUNIONSTORE d{a} s{a} s{b} -> -CROSSSLOT Keys in request don't hash to the same slot
		XREAD STREAMS {a} {b} 0 0 -> -CROSSSLOT Keys in request don't hash to the same slot
		COPY {a}1 {a}3 DB 1 -> -ERR Copying to another database is not allowed in cluster mode
		COPY {a}1 {a}3 -> 1
		SELECT 0 -> +OK
		SELECT 1 -> -ERR SELECT is not allowed in cluster mode
		SWAPDB 0 1 -> -ERR SWAPDB is not allowed in cluster mode
		MOVE {a}1 1 -> -ERR MOVE is not allowed in cluster mode
		READONLY -> +OK
		READWRITE -> +OK
		ASKING -> +OK
		SPUBLISH c m -> 0
		ZDIFF 9 {a}1 {b}2 -> -ERR syntax error
		ZDIFF -1 {a}1 {b}2 -> -ERR at least 1 input key is needed for 'zdiff' command
		SSUBSCRIBE a b -> -CROSSSLOT Keys in request don't hash to the same slot

		MULTI -> +OK
		SET {a}1 1 -> +QUEUED
		SET {b}1 1 -> +QUEUED
		EXEC -> -CROSSSLOT Keys in request don't hash to the same slot
		EXEC -> -ERR EXEC without MULTI
		GET {a}1 -> "x"
		MULTI -> +OK
		MSET {a}1 1 {b}1 2 -> -CROSSSLOT Keys in request don't hash to the same slot
		EXEC -> -EXECABORT Transaction discarded because of previous errors.
		MULTI -> +OK
		SET {a}1 1 -> +QUEUED
		INCR {a}1 -> +QUEUED
		EXEC -> [+OK, 2]

		EVAL "return redis.call('GET', KEYS[1])" 2 {a}1 {b}1 -> -CROSSSLOT Keys in request don't hash to the same slot
		EVAL "return redis.call('GET', KEYS[1])" 1 {a}1 -> "2"
		EVAL "return {redis.call('GET', '{a}1'), redis.call('GET', '{b}1')}" 0 -> ["2", nil]
		EVAL "#!lua\nreturn {redis.pcall('GET', '{a}1'), redis.pcall('GET', '{b}1')}" 0 -> ["2", -ERR Script attempted to access keys that do not hash to the same slot]
		EVAL "#!lua\nreturn {redis.pcall('GET', '{b}1')}" 1 {a}1 -> [-ERR Script attempted to access keys that do not hash to the same slot]
		EVAL "#!lua flags=allow-cross-slot-keys\nreturn {redis.call('GET', '{a}1'), redis.call('GET', '{b}1')}" 0 -> ["2", nil]
		EVAL "return redis.pcall('MGET', '{a}1', '{b}1')" 0 -> -ERR Command 'mget' in script attempted to access keys that don't hash to the same slot
		EVAL "#!lua flags=no-cluster\nreturn 1" 0 -> -ERR Can not run script on cluster, 'no-cluster' flag is set.
		EVAL "return redis.pcall('SELECT', 1)" 0 -> -ERR SELECT is not allowed in cluster mode
		CLUSTER DELSLOTS 3300 -> +OK
		CLUSTER KEYSLOT {b}1 -> 3300
		CONFIG SET cluster-require-full-coverage no -> +OK
		EVAL "return redis.pcall('GET', '{b}1')" 0 -> -ERR Script attempted to access a slot not served
		CONFIG SET cluster-require-full-coverage yes -> +OK
		EVAL "return redis.pcall('GET', '{a}1')" 0 -> -ERR Script attempted to execute a command while the cluster is down
		CONFIG SET cluster-allow-reads-when-down yes -> +OK
		EVAL "return redis.pcall('GET', '{a}1')" 0 -> "2"
		EVAL "return redis.pcall('SET', '{a}1', 1)" 0 -> -ERR Script attempted to execute a write command while the cluster is down and readonly
		CLUSTER ADDSLOTS 3300 -> +OK

		RPUSH {a}l 2 1 -> 2
		MSET {a}w1 5 {a}w2 3 -> +OK
		SORT {a}l BY {a}w* -> ["2", "1"]
		SORT {a}l BY nosort GET # -> ["2", "1"]
		SORT {a}l BY w* -> -ERR BY option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.
		SORT {a}l GET {b}w* -> -ERR GET option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.
		SORT {a}l GET {a}w* GET # -> ["5", "1", "3", "2"]
		SORT {a}l BY *{a} -> -ERR BY option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots.
		SORT {a}l STORE {b}l -> -CROSSSLOT Keys in request don't hash to the same slot
	`)
}

// TestClusterKeysInSlot: the keys of a slot are counted and listed, in memory and on disk, without
// the expired ones.
func TestClusterKeysInSlot(t *testing.T) {
	h := clustered(t, true)
	for i := range 250 {
		h.do("SET", fmt.Sprint("{a}", i), "v")
		h.do("SET", fmt.Sprint("k", i), "v")
	}
	h.run("PEXPIRE {a}7 10 -> 1\nadvance 10ms")
	for range 2 {
		h.run(`
			CLUSTER COUNTKEYSINSLOT 15495 -> 249
			CLUSTER KEYSLOT {a} -> 15495
			CLUSTER COUNTKEYSINSLOT 16384 -> -ERR Invalid slot
			CLUSTER COUNTKEYSINSLOT -1 -> -ERR Invalid slot
			CLUSTER COUNTKEYSINSLOT x -> -ERR value is not an integer or out of range
			CLUSTER GETKEYSINSLOT 15495 0 -> []
			CLUSTER GETKEYSINSLOT 15495 -1 -> -ERR Invalid slot or number of keys
			CLUSTER GETKEYSINSLOT 16384 1 -> -ERR Invalid slot or number of keys
		`)
		for count, want := range map[string]int{"10": 10, "1000": 249} {
			text := h.do("CLUSTER", "GETKEYSINSLOT", "15495", count)
			if n := strings.Count(text, `"{a}`); n != want || strings.Contains(text, `"k`) {
				t.Errorf("%s keys: %s", count, text)
			}
		}
		total := 0
		for slot := range storage.Slots {
			n, err := strconv.Atoi(h.do("CLUSTER", "COUNTKEYSINSLOT", fmt.Sprint(slot)))
			if err != nil {
				t.Fatal(err)
			}
			total += n
		}
		if total != 499 {
			t.Errorf("all slots have %d keys", total)
		}
		h.reopen()
	}
}

// TestClusterOfData: cluster mode gives an existing directory the slots of its keys. If other
// databases than 0 have keys, cluster mode is refused.
func TestClusterOfData(t *testing.T) {
	h := newHarness(t)
	h.run("MSET foo v bar v -> +OK\nselect 1\nSET foo v -> +OK")
	h.env.Config = clusterConfig(t)
	if err := h.env.LoadCluster(); err == nil ||
		!strings.Contains(err.Error(), "database 1 has keys") {
		t.Errorf("with keys in database 1: %v", err)
	}
	h.run("DEL foo -> 1\nselect 0")
	if err := h.env.LoadCluster(); err != nil {
		t.Error(err)
	}
	h.run(`
		CONFIG SET cluster-require-full-coverage no -> +OK
		GET foo -> "v"
		GET bar -> "v"
		GET other -> -CLUSTERDOWN Hash slot not served
	`)
}

// TestClusterAddress: all replies contain the announced address of the node or, without one, the
// address where it listens.
func TestClusterAddress(t *testing.T) {
	h := clustered(t, true)
	id := strings.Trim(h.do("CLUSTER", "MYID"), `"`)
	node := func(text string) string { return strings.ReplaceAll(text, "<id>", id) }
	h.run(node(`
		proto 3
		CLUSTER SHARDS -> [{"slots": [0, 16383], "nodes": [{"id": "<id>", "port": 7000, "tls-port": 7001, "ip": "", "endpoint": "", "role": "master", "replication-offset": 0, "health": "online"}]}]
		CONFIG SET cluster-announce-hostname keyp.example -> +OK
		CONFIG SET cluster-announce-ip 10.0.0.1 -> +OK
		CONFIG SET cluster-announce-port 6000 -> +OK
		CONFIG SET cluster-announce-bus-port 6009 -> +OK
		CLUSTER NODES -> =txt:"<id> 10.0.0.1:6000@6009,keyp.example myself,master - 0 0 0 connected 0-16383\n"
		CLUSTER SLOTS -> [[0, 16383, ["10.0.0.1", 6000, "<id>", {"hostname": "keyp.example"}]]]
		CONFIG SET cluster-preferred-endpoint-type hostname -> +OK
		CLUSTER SLOTS -> [[0, 16383, ["keyp.example", 6000, "<id>", {"ip": "10.0.0.1"}]]]
		CONFIG SET cluster-preferred-endpoint-type unknown-endpoint -> +OK
		CLUSTER SLOTS -> [[0, 16383, [null, 6000, "<id>", {"ip": "10.0.0.1", "hostname": "keyp.example"}]]]
	`))
	h.client.Conn = &secureConn{}
	h.run(
		node(`CLUSTER NODES -> =txt:"<id> 10.0.0.1:7001@6009,keyp.example myself,master - 0 0 0 connected 0-16383\n"`))
}

type secureConn struct{ fakeConn }

func (*secureConn) Secure() bool { return true }

// TestSlotText: every set of slots is read as it was written.
func TestSlotText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var s slotSet
		for _, r := range rapid.SliceOfN(rapid.IntRange(0, storage.Slots-1), 0,
			40).Draw(rt, "slots") {
			for slot := r; slot < min(r+rapid.IntRange(1, 300).Draw(rt, "length"),
				storage.Slots); slot++ {
				s.add(uint16(slot))
			}
		}
		if got, ok := parseSlots(s.text()); !ok || got != s {
			rt.Fatalf("%q is read as %q", s.text(), got.text())
		}
	})
}

// TestPatternSlot: patternSlot returns the slot of all names that a pattern matches, or -1 if it
// does not know one.
func TestPatternSlot(t *testing.T) {
	for pattern, want := range map[string]int{
		"{a}*": 15495, "x{a}*": 15495, "*{a}": -1, "{*}": -1, "{a*}": -1, "{}*": -1, "w*": -1,
		"a": 15495, "{a}": 15495, "{a": int(storage.Slot([]byte("{a"))),
		"{}a": int(storage.Slot([]byte("{}a"))), "\\*": -1, "[a]": -1, "?": -1, "": 0,
	} {
		if got := patternSlot([]byte(pattern)); got != want {
			t.Errorf("%q: %d, want %d", pattern, got, want)
		}
	}
}
