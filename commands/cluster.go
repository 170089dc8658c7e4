package commands

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"keyp/storage"
	"keyp/storage/object"
	"keyp/ttl"
)

// Cluster mode (cluster-enabled). A cluster has one node, or is a group (group.go): a leader with
// its followers. A single node serves those of the 16,384 hash slots that were assigned to it.
// Clients for Redis Cluster work unchanged. A command is refused, as in Redis Cluster, if its keys
// are in several slots, or in a slot that no node serves. The node's id and its slots are in the
// store's system database.

const (
	errNoCluster     Error = "ERR This instance has cluster support disabled"
	errClusterDown   Error = "CLUSTERDOWN The cluster is down"
	errClusterReads  Error = "CLUSTERDOWN The cluster is down and only accepts read commands"
	errNotServed     Error = "CLUSTERDOWN Hash slot not served"
	errCrossSlot     Error = "CROSSSLOT Keys in request don't hash to the same slot"
	errScriptSlots   Error = "ERR Script attempted to access keys that do not hash to the same slot"
	errScriptSlot    Error = "ERR Script attempted to access a non local key in a cluster node"
	errScriptUnheld  Error = "ERR Script attempted to access a slot not served"
	errScriptDown    Error = "ERR Script attempted to execute a command while the cluster is down"
	errScriptReads   Error = "ERR Script attempted to execute a write command while the cluster is down and readonly"
	errScriptCluster Error = "ERR Can not run script on cluster, 'no-cluster' flag is set."
	errSelectDB      Error = "ERR SELECT is not allowed in cluster mode"
	errSwapDB        Error = "ERR SWAPDB is not allowed in cluster mode"
	errMoveDB        Error = "ERR MOVE is not allowed in cluster mode"
	errCopyDB        Error = "ERR Copying to another database is not allowed in cluster mode"
	errSortBySlot    Error = "ERR BY option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots."
	errSortGetSlot   Error = "ERR GET option of SORT denied in Cluster mode when keys formed by the pattern may be in different slots."
)

// cluster is a node's knowledge of its cluster. A value never changes: setCluster stores a new one
// instead.
type cluster struct {
	id, shard string // 40 hexadecimal digits each
	// epoch is the largest config epoch of all nodes, and own is the config epoch of this node.
	epoch, own int64
	slots      slotSet
	served     int // how many they are
}

// with returns a copy of the cluster that has other slots.
func (n *cluster) with(slots slotSet) *cluster {
	next := *n
	next.slots, next.served = slots, slots.len()
	return &next
}

// slotSet is a set of hash slots.
type slotSet [storage.Slots / 64]uint64

func (s *slotSet) has(slot uint16) bool { return s[slot/64]>>(slot%64)&1 != 0 }
func (s *slotSet) add(slot uint16)      { s[slot/64] |= 1 << (slot % 64) }
func (s *slotSet) remove(slot uint16)   { s[slot/64] &^= 1 << (slot % 64) }

func (s *slotSet) len() (n int) {
	for _, word := range s {
		n += bits.OnesCount64(word)
	}
	return n
}

// ranges returns the slots in ascending order as ranges, each as its first and last slot.
func (s *slotSet) ranges() (list [][2]uint16) {
	for slot := range uint16(storage.Slots) {
		switch n := len(list); {
		case !s.has(slot):
		case n > 0 && list[n-1][1]+1 == slot:
			list[n-1][1] = slot
		default:
			list = append(list, [2]uint16{slot, slot})
		}
	}
	return list
}

// text returns the ranges as CLUSTER NODES shows them: "0-100 200".
func (s *slotSet) text() string {
	var words []string
	for _, r := range s.ranges() {
		word := strconv.Itoa(int(r[0]))
		if r[1] != r[0] {
			word += "-" + strconv.Itoa(int(r[1]))
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// parseSlots parses the text that slotSet.text returns.
func parseSlots(text string) (s slotSet, ok bool) {
	for _, word := range strings.Fields(text) {
		from, to, isRange := strings.Cut(word, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 16)
		last, err2 := strconv.ParseUint(to, 10, 16)
		if err != nil || err2 != nil || last >= storage.Slots {
			return s, false
		}
		for slot := first; slot <= last; slot++ {
			s.add(uint16(slot))
		}
	}
	return s, true
}

// clusterKey is the key in the system database under which a node keeps its cluster data for a
// restart. The value is a storedCluster in JSON.
const clusterKey = "cluster"

type storedCluster struct {
	ID    string `json:"id"`
	Shard string `json:"shard"`
	Epoch int64  `json:"epoch"`
	Own   int64  `json:"config-epoch"`
	Slots string `json:"slots"`
}

// LoadCluster makes the server the cluster node that it was before, or a new node, if
// cluster-enabled is yes. A new node serves the slots of its existing keys, as a Redis server does
// that is switched to cluster mode. The error is about the data: keys in databases other than 0,
// which cluster clients cannot see, or a stored state that is wrong.
func (e *Env) LoadCluster() error {
	if !e.Config.Bool("cluster-enabled") {
		return nil
	}
	for _, p := range e.Store.Populations() {
		if p.DB != 0 {
			return fmt.Errorf("cluster mode: database %d has keys, and a cluster has database 0 alone; move them there, or start without cluster-enabled",
				p.DB)
		}
	}
	kept, err := keptStrings(e.Store, clusterKey)
	if err != nil {
		return err
	}
	var was storedCluster
	if len(kept) == 1 {
		slots, ok := slotSet{}, false
		if err := json.Unmarshal([]byte(kept[0]), &was); err == nil && len(was.ID) == 40 &&
			len(was.Shard) == 40 {
			slots, ok = parseSlots(was.Slots)
		}
		if !ok {
			return fmt.Errorf("cluster mode: what is stored of the cluster cannot be read: %.200q",
				kept[0])
		}
		e.cluster.Store((&cluster{id: was.ID, shard: was.Shard, epoch: was.Epoch,
			own: was.Own}).with(slots))
		e.logCluster()
		return nil
	}
	var slots slotSet
	for cursor := uint64(0); ; {
		next, err := e.Store.Scan(0, cursor, 1000, func(name []byte, _ object.Type) {
			slots.add(storage.Slot(name))
		})
		if err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	txn := e.Store.NewTxn()
	e.Store.BeginAll(txn)
	e.storeCluster(txn, (&cluster{id: newNodeID(), shard: newNodeID()}).with(slots))
	txn.End()
	e.logCluster()
	return nil
}

// LoadMember sets the cluster of a member of a group. node and shard are its ids, which are not in
// the store. The group serves all slots.
func (e *Env) LoadMember(node, shard string) {
	e.cluster.Store((&cluster{id: node, shard: shard}).with(allSlots))
	e.logCluster()
}

func (e *Env) logCluster() {
	n := e.cluster.Load()
	e.Log.Info("cluster mode", "node", n.id, "slots", n.served)
}

func newNodeID() string {
	var id [20]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:])
}

// storeCluster replaces the node's knowledge of the cluster, and stores it for restarts. The
// transaction has all shards locked.
func (e *Env) storeCluster(txn *storage.Txn, c *cluster) {
	text, err := json.Marshal(storedCluster{ID: c.id, Shard: c.shard, Epoch: c.epoch, Own: c.own,
		Slots: c.slots.text()})
	if err != nil {
		panic(err) // strings and numbers
	}
	txn.SetString(e.Store.SystemKey(clusterKey), text, ttl.Deadline{}, storage.Event{})
	e.cluster.Store(c)
}

// setCluster calls storeCluster in the transaction of a command.
func (c *Ctx) setCluster(next *cluster) error {
	k := []storage.Key{c.Env.Store.SystemKey(clusterKey)}
	c.Txn.Use(k)
	if err := c.load(k); err != nil {
		return err
	}
	c.Env.storeCluster(c.Txn, next)
	return nil
}

// clustered reports whether the server is in cluster mode.
func (e *Env) clustered() bool { return e.cluster.Load() != nil }

// mode returns the mode of the server, as INFO and HELLO name it.
func (e *Env) mode() string {
	if e.clustered() {
		return "cluster"
	}
	return "standalone"
}

// complete reports whether all slots are served, or the configuration does not require that.
func (e *Env) complete(n *cluster) bool {
	return n.served == storage.Slots || !e.Config.Bool("cluster-require-full-coverage")
}

// route returns the error for a call that this node cannot run in cluster mode, or "". All keys and
// shard channels of the call must be in one slot, and the node must serve that slot. For EXEC the
// rule applies to the queued commands. wait is true if the call must wait for the group.
func (e *Env) route(c *Ctx) (refusal Error, wait bool) {
	n, st := e.cluster.Load(), e.groupStatus()
	if n == nil {
		return "", false
	}
	r := routing{cluster: n, slot: -1, all: st != nil}
	write := c.Spec.Is(Write)
	if c.Spec.Is(execs) {
		if q := c.Client.queue; q != nil && !q.failed {
			e.eachQueued(c, func(spec *Spec, args [][]byte, _ int) {
				r.add(spec, args)
				write = write || spec.Is(Write)
			})
		}
	} else {
		r.add(c.Spec, c.Args)
	}
	switch {
	case r.err != "":
		return r.err, false
	case st != nil:
		return e.gate(c, st, r.slot, write)
	case r.slot < 0 || e.complete(n):
		return "", false
	case !e.Config.Bool("cluster-allow-reads-when-down"):
		return errClusterDown, false
	case write:
		return errClusterReads, false
	}
	return "", false
}

// routing is a search for the slot of all keys of a call.
type routing struct {
	cluster *cluster
	slot    int  // -1: no key yet
	all     bool // it serves all slots, or who does is known
	err     Error
}

func (r *routing) add(spec *Spec, args [][]byte) {
	if !spec.counts(args) {
		return
	}
	for i := range spec.Keys {
		ks := &spec.Keys[i]
		first, last, step := ks.span(args)
		for at := first; at <= last && r.err == ""; at += step {
			slot := storage.Slot(args[at])
			switch {
			case r.slot >= 0 && int(slot) != r.slot:
				r.err = errCrossSlot
			case r.slot < 0 && !r.all && !r.cluster.slots.has(slot):
				r.err = errNotServed
			}
			r.slot = int(slot)
		}
	}
}

// scriptRoute does the checks of route for a command that a script calls. slot is the slot that the
// script has declared or used before; -1 if there is none. crosses says that the script may use
// several slots, because it has no #! line or has the flag allow-cross-slot-keys. readOnly says
// that its client has sent READONLY.
func (e *Env) scriptRoute(spec *Spec, args [][]byte, slot *int, crosses, readOnly bool) Error {
	n := e.cluster.Load()
	if n == nil {
		return ""
	}
	grouped := e.groupStatus() != nil
	r := routing{cluster: n, slot: -1, all: grouped}
	r.add(spec, args)
	switch refusal := e.gateScripted(spec, r.slot, readOnly); {
	case refusal != "":
		return refusal
	case r.err == errCrossSlot:
		return Error("ERR Command '" + spec.full +
			"' in script attempted to access keys that don't hash to the same slot")
	case r.err == errNotServed:
		return errScriptUnheld
	case r.err != "":
		return errScriptSlot
	case r.slot < 0:
		return ""
	}
	if !grouped && !e.complete(n) {
		switch {
		case !e.Config.Bool("cluster-allow-reads-when-down"):
			return errScriptDown
		case spec.Is(Write):
			return errScriptReads
		}
	}
	if !crosses && *slot >= 0 && *slot != r.slot {
		return errScriptSlots
	}
	*slot = r.slot
	return ""
}

// patternSlot returns the slot of all keys that a pattern may match or form, -1 if they may be in
// several slots. The keys are in one slot if there is no wildcard before the hash tag of the
// pattern or in it.
func patternSlot(pattern []byte) int {
	open := -1
	for i, ch := range pattern {
		switch {
		case ch == '*' || ch == '?' || ch == '[' || ch == '\\':
			return -1
		case ch == '{' && open < 0:
			open = i
		case ch == '}' && open >= 0 && i > open+1:
			return int(storage.Slot(pattern[:i+1]))
		}
	}
	return int(storage.Slot(pattern))
}
