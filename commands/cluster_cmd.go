package commands

import (
	"fmt"
	"net"
	"strconv"

	"keyp/internal/config"
	"keyp/storage"
	"keyp/storage/object"
)

const (
	errSlot         Error = "ERR Invalid slot"
	errSlotRange    Error = "ERR Invalid or out of range slot"
	errSlotKeys     Error = "ERR Invalid slot or number of keys"
	errFlushSlots   Error = "ERR DB must be empty to perform CLUSTER FLUSHSLOTS."
	errClusterReset Error = "ERR CLUSTER RESET can't be called with master nodes containing keys"
	errNodeEpoch    Error = "ERR Node config epoch is already non-zero"
	errForgetMyself Error = "ERR I tried hard but I can't forget myself..."
)

// The flags of the subcommands that read, and of those that change the node.
const (
	clusterAsks    = Stale
	clusterChanges = NoAsyncLoading | Admin | Stale
)

var slotRangeArg = block("range", intArg("start-slot"), intArg("end-slot")).many()

var clusterCommands = []Spec{
	{
		Name: "CLUSTER", Group: Cluster, Since: "3.0.0", Arity: -2,
		Summary:    "Is about the cluster that the server is a node of, in cluster mode.",
		Complexity: "Depends on subcommand.",
		Sub: []Spec{
			clusterCommand("ADDSLOTS", "3.0.0", -3, clusterChanges,
				"Assigns hash slots to the node.", "O(N) in the number of slots.",
				nil, changeSlots(true, slotsOf), intArg("slot").many()).scoped(AllKeys),
			clusterCommand("ADDSLOTSRANGE", "7.0.0", -4, clusterChanges,
				"Assigns ranges of hash slots to the node.", "O(N) in the number of slots.",
				nil, changeSlots(true, slotRangesOf), slotRangeArg).scoped(AllKeys),
			clusterCommand("BUMPEPOCH", "3.0.0", 2, clusterChanges,
				"Raises the node's config epoch, unless it is the largest.", "O(1)",
				[]string{tipRandom}, bumpEpoch).scoped(AllKeys),
			clusterCommand("COUNT-FAILURE-REPORTS", "3.0.0", 3, Admin|Stale,
				"Counts the nodes that take a node for failed.", "O(1)",
				[]string{tipRandom}, ofNode(func(c *Ctx, _ *node, _ []node) error {
					c.Out.Int(0)
					return nil
				}), stringArg("node-id")),
			clusterCommand("COUNTKEYSINSLOT", "3.0.0", 3, clusterAsks,
				"Counts the keys of a hash slot.", "O(N) in the number of its keys.",
				nil, countKeysInSlot, intArg("slot")).scoped(AllKeys),
			clusterCommand("DELSLOTS", "3.0.0", -3, clusterChanges,
				"Takes hash slots from the node; their keys stay.", "O(N) in the number of slots.",
				nil, changeSlots(false, slotsOf), intArg("slot").many()).scoped(AllKeys),
			clusterCommand("DELSLOTSRANGE", "7.0.0", -4, clusterChanges,
				"Takes ranges of hash slots from the node; their keys stay.",
				"O(N) in the number of slots.",
				nil, changeSlots(false, slotRangesOf), slotRangeArg).scoped(AllKeys),
			clusterCommand("FAILOVER", "3.0.0", -2, clusterChanges,
				"Makes this replica the leader of the group.", "O(1)",
				nil, clusterFailover, oneOf("options", word("FORCE"), word("TAKEOVER")).opt()),
			clusterCommand("FLUSHSLOTS", "3.0.0", 2, clusterChanges,
				"Takes all hash slots from a node without keys.", "O(1)", nil,
				flushSlots).scoped(AllKeys),
			clusterCommand("FORGET", "3.0.0", 3, clusterChanges, "Removes a node from the group.",
				"O(1)",
				nil, ofNode(clusterForget), stringArg("node-id")),
			clusterCommand("FOUND", "1.0.0", 2, clusterChanges,
				"Makes a node that is alone the first member of a group, with all slots.", "O(1)",
				nil, clusterFound),
			clusterCommand("GETKEYSINSLOT", "3.0.0", 4, clusterAsks, "Lists keys of a hash slot.",
				"O(N) in the number of keys listed.",
				[]string{tipRandom}, getKeysInSlot, intArg("slot"),
				intArg("count")).scoped(AllKeys),
			clusterHelp(),
			clusterCommand("INFO", "3.0.0", 2, clusterAsks, "Shows the state of the cluster.",
				"O(1)", []string{tipRandom}, clusterInfo),
			clusterCommand("KEYSLOT", "3.0.0", 3, clusterAsks, "Gives the hash slot of a name.",
				"O(N) in the bytes of the name.",
				nil, inCluster(func(c *Ctx, _ *cluster) {
					c.Out.Int(int64(storage.Slot(c.Arg(2))))
				}), stringArg("key")),
			clusterCommand("LINKS", "7.0.0", 2, clusterAsks,
				"Lists the connections to other nodes.", "O(N) in the number of nodes.",
				[]string{tipRandom}, inCluster(clusterLinks)),
			clusterCommand("MEET", "3.0.0", -4, clusterChanges,
				"Gets to know the group of another node, by its address.", "O(1)",
				nil, clusterMeet, stringArg("ip"), intArg("port"),
				intArg("cluster-bus-port").opt()),
			clusterCommand("MYID", "3.0.0", 2, clusterAsks, "Gives the node's id.", "O(1)",
				nil, inNodes(clusterMyID)),
			clusterCommand("MYSHARDID", "7.2.0", 2, clusterAsks,
				"Gives the id of the node's shard: the nodes with the same slots.", "O(1)",
				[]string{tipRandom}, inCluster(clusterShard)),
			clusterCommand("NODES", "3.0.0", 2, clusterAsks|namesLeader,
				"Lists the nodes and their slots, as text.", "O(N) in the number of nodes.",
				[]string{tipRandom}, inNodes(clusterNodes)),
			clusterCommand("REPLICAS", "5.0.0", 3, Admin|Stale, "Lists the replicas of a node.",
				"O(N) in the number of replicas.",
				[]string{tipRandom}, ofNode(clusterReplicas), stringArg("node-id")),
			clusterCommand("REPLICATE", "3.0.0", 3, clusterChanges,
				"Makes a node without keys a member of another node's group.", "O(1)",
				nil, clusterReplicate, stringArg("node-id")),
			clusterCommand("RESET", "3.0.0", -2, Admin|NoScript|Stale,
				"Resets a node without keys: it loses its slots, or leaves its group.", "O(1)",
				nil, resetCluster, oneOf("reset-type", word("HARD"), word("SOFT")).opt()).scoped(
				AllKeys),
			clusterCommand("SAVECONFIG", "3.0.0", 2, clusterChanges,
				"Does nothing: what the node knows is stored with each change.", "O(1)",
				nil, inCluster(func(c *Ctx, _ *cluster) { c.Out.OK() })),
			clusterCommand("SET-CONFIG-EPOCH", "3.0.0", 3, clusterChanges,
				"Sets the config epoch of a node that has none.", "O(1)",
				nil, setConfigEpoch, intArg("config-epoch")).scoped(AllKeys),
			clusterCommand("SHARDS", "7.0.0", 2, clusterAsks|Loading|namesLeader,
				"Lists the slots, and the nodes that serve them.", "O(N) in the number of nodes.",
				[]string{tipRandom}, inNodes(clusterShards)),
			clusterCommand("SLAVES", "3.0.0", 3, Admin|Stale, "An older name of CLUSTER REPLICAS.",
				"O(N) in the number of replicas.",
				[]string{tipRandom}, ofNode(clusterReplicas), stringArg("node-id")),
			clusterCommand("SLOTS", "3.0.0", 2, clusterAsks|Loading|namesLeader,
				"Lists ranges of slots, and the nodes that serve them.",
				"O(N) in the number of nodes.",
				[]string{tipRandom}, inNodes(clusterSlots)),
		},
	},
	clusterMode("ASKING", "3.0.0", Fast, "Does nothing: no slot is on its way to this node.",
		inCluster(func(c *Ctx, _ *cluster) { c.Out.OK() })),
	clusterMode("READONLY", "3.0.0", Loading|Stale|Fast,
		"Says that the connection may read from a replica.", readOnlyMode(true)),
	clusterMode("READWRITE", "3.0.0", Loading|Stale|Fast, "Takes READONLY back.",
		readOnlyMode(false)),
}

// clusterCommand declares a subcommand of CLUSTER.
func clusterCommand(name, since string, arity int, flags Flags, summary, complexity string,
	tips []string, run func(*Ctx) error, args ...Arg) Spec {
	return Spec{
		Name: name, Group: Cluster, Since: since, Arity: arity, Flags: flags, Scope: OnLoop,
		Summary: summary, Complexity: complexity, Tips: tips, Args: args, Run: run,
	}
}

func (s Spec) scoped(scope Scope) Spec {
	s.Scope = scope
	return s
}

// clusterMode declares a command that changes the mode of its connection to the node.
func clusterMode(name, since string, flags Flags, summary string, run func(*Ctx) error) Spec {
	return Spec{
		Name: name, Group: Cluster, Since: since, Arity: 1, Flags: flags, Scope: OwnClient,
		Summary: summary, Complexity: "O(1)", Categories: []string{"@connection"}, Run: run,
	}
}

func clusterHelp() Spec {
	s := helpFor("CLUSTER", Cluster, "5.0.0", Loading|Stale,
		"ADDSLOTS <slot> [<slot> ...]", "    Serve these slots.",
		"ADDSLOTSRANGE <first> <last> [<first> <last> ...]", "    Serve these ranges of slots.",
		"BUMPEPOCH", "    Raise the node's config epoch.",
		"COUNT-FAILURE-REPORTS <node-id>", "    Count who takes a node for failed.",
		"COUNTKEYSINSLOT <slot>", "    Count the keys of a slot.",
		"DELSLOTS <slot> [<slot> ...]", "    Serve these slots no more.",
		"DELSLOTSRANGE <first> <last> [<first> <last> ...]",
		"    Serve these ranges of slots no more.",
		"FLUSHSLOTS", "    Serve no slots. There must be no keys.",
		"FAILOVER [FORCE|TAKEOVER]", "    Make this replica the leader of the group.",
		"FORGET <node-id>", "    Remove a node from the group.",
		"FOUND", "    Make this node the first member of a group.",
		"GETKEYSINSLOT <slot> <count>", "    List keys of a slot.",
		"INFO", "    Show the state of the cluster.",
		"KEYSLOT <key>", "    Give the slot of a name.",
		"LINKS", "    List the connections to other nodes.",
		"MEET <ip> <port> [<bus-port>]", "    Get to know the group of another node.",
		"MYID", "    Give the node's id.",
		"MYSHARDID", "    Give the id of the node's shard.",
		"NODES", "    List the nodes, as text.",
		"REPLICAS <node-id>", "    List the replicas of a node. SLAVES is its older name.",
		"REPLICATE <node-id>", "    Become a member of another node's group.",
		"RESET [HARD|SOFT]", "    Begin again without slots. There must be no keys.",
		"SAVECONFIG", "    Does nothing.",
		"SET-CONFIG-EPOCH <epoch>", "    Set the config epoch of a node that has none.",
		"SHARDS", "    List the slots and their nodes.",
		"SLAVES <node-id>", "    List the replicas of a node.",
		"SLOTS", "    List ranges of slots and their nodes.",
	)
	help := s.Run
	s.Run = inCluster(func(c *Ctx, _ *cluster) { _ = help(c) })
	return s
}

// inCluster returns a handler that calls run with the cluster. Without cluster mode it fails.
func inCluster(run func(c *Ctx, n *cluster)) func(*Ctx) error {
	return func(c *Ctx) error {
		n := c.Env.cluster.Load()
		if n == nil {
			return errNoCluster
		}
		run(c, n)
		return nil
	}
}

func clusterShard(c *Ctx, n *cluster) {
	if st := c.Env.groupStatus(); st != nil {
		c.Out.BulkString(st.Shard)
		return
	}
	c.Out.BulkString(n.shard)
}

// change returns a handler that stores the result of next as the node's cluster. It fails without
// cluster mode, and for a member of a group.
func change(next func(c *Ctx, n *cluster) (*cluster, error)) func(*Ctx) error {
	return func(c *Ctx) error {
		n := c.Env.cluster.Load()
		if n == nil {
			return errNoCluster
		}
		other, err := next(c, n)
		if err != nil {
			return err
		}
		if c.Env.groupStatus() != nil {
			return errGroupSlots
		}
		if err := c.setCluster(other); err != nil {
			return err
		}
		c.Out.OK()
		return nil
	}
}

// slotsOf returns the slots in the arguments from the third on, each as a range of one slot.
func slotsOf(c *Ctx) (list [][2]uint16, err error) {
	for _, arg := range c.Args[2:] {
		slot, err := parseSlot(arg)
		if err != nil {
			return nil, err
		}
		list = append(list, [2]uint16{slot, slot})
	}
	return list, nil
}

// slotRangesOf is like slotsOf, but each two arguments are the ends of a range.
func slotRangesOf(c *Ctx) (list [][2]uint16, err error) {
	if len(c.Args)%2 != 0 {
		return nil, errArity(c.Spec.full)
	}
	for args := c.Args[2:]; len(args) > 0; args = args[2:] {
		first, err := parseSlot(args[0])
		if err != nil {
			return nil, err
		}
		last, err := parseSlot(args[1])
		if err != nil {
			return nil, err
		}
		if first > last {
			return nil,
				Error(fmt.Sprintf("ERR start slot number %d is greater than end slot number %d",
					first, last))
		}
		list = append(list, [2]uint16{first, last})
	}
	return list, nil
}

func parseSlot(arg []byte) (uint16, error) {
	n, ok := ParseInt(arg)
	if !ok || n < 0 || n >= storage.Slots {
		return 0, errSlotRange
	}
	return uint16(n), nil
}

// changeSlots returns the handler that adds or removes the slots that of returns.
func changeSlots(add bool, of func(*Ctx) ([][2]uint16, error)) func(*Ctx) error {
	return change(func(c *Ctx, n *cluster) (*cluster, error) {
		list, err := of(c)
		if err != nil {
			return nil, err
		}
		if c.Env.groupStatus() != nil {
			n = n.with(allSlots)
		}
		slots, seen := n.slots, slotSet{}
		for _, r := range list {
			for slot := r[0]; slot <= r[1]; slot++ {
				switch {
				case n.slots.has(slot) && add:
					return nil, Error(fmt.Sprintf("ERR Slot %d is already busy", slot))
				case !n.slots.has(slot) && !add:
					return nil, Error(fmt.Sprintf("ERR Slot %d is already unassigned", slot))
				case seen.has(slot):
					return nil, Error(fmt.Sprintf("ERR Slot %d specified multiple times", slot))
				case add:
					slots.add(slot)
				default:
					slots.remove(slot)
				}
				seen.add(slot)
			}
		}
		return n.with(slots), nil
	})
}

var flushSlots = change(func(c *Ctx, n *cluster) (*cluster, error) {
	if keys, _ := c.Txn.View().Count(0); keys > 0 {
		return nil, errFlushSlots
	}
	return n.with(slotSet{}), nil
})

var setConfigEpoch = change(func(c *Ctx, n *cluster) (*cluster, error) {
	epoch, ok := ParseInt(c.Arg(2))
	switch {
	case !ok:
		return nil, ErrNotInteger
	case epoch < 0:
		return nil, Error(fmt.Sprintf("ERR Invalid config epoch specified: %d", epoch))
	case c.Env.groupStatus() != nil:
		return nil, errEpochAlone
	case n.own != 0:
		return nil, errNodeEpoch
	}
	next := *n
	next.own, next.epoch = epoch, max(n.epoch, epoch)
	return &next, nil
})

func resetCluster(c *Ctx) error {
	a := c.Cursor(2)
	hard := a.Word("HARD")
	if !hard && a.More() && !a.Word("SOFT") || a.More() {
		return ErrSyntax
	}
	if st := c.Env.groupStatus(); st != nil {
		return resetGroup(c, st, hard)
	}
	return resetAlone(hard)(c)
}

// resetAlone returns the handler of RESET for a node that is in no group.
func resetAlone(hard bool) func(*Ctx) error {
	return change(func(c *Ctx, n *cluster) (*cluster, error) { return c.afterReset(n, hard) })
}

func (c *Ctx) afterReset(n *cluster, hard bool) (*cluster, error) {
	if keys, _ := c.Txn.View().Count(0); keys > 0 {
		return nil, errClusterReset
	}
	next := *n.with(slotSet{})
	next.shard = newNodeID()
	if hard {
		next.id, next.epoch, next.own = newNodeID(), 0, 0
	}
	return &next, nil
}

func bumpEpoch(c *Ctx) error {
	n := c.Env.cluster.Load()
	switch {
	case n == nil:
		return errNoCluster
	case c.Env.groupStatus() != nil:
		c.Out.Simple("STILL " + strconv.FormatInt(epochOf(c.Env.groupStatus()), 10))
		return nil
	case n.own != 0 && n.own == n.epoch:
		c.Out.Simple("STILL " + strconv.FormatInt(n.own, 10))
		return nil
	}
	next := *n
	next.epoch++
	next.own = next.epoch
	if err := c.setCluster(&next); err != nil {
		return err
	}
	c.Out.Simple("BUMPED " + strconv.FormatInt(next.own, 10))
	return nil
}

// eachInSlot calls visit for each key of a slot until it returns false. It visits no key twice,
// since the command has locked all keys.
func (c *Ctx) eachInSlot(slot uint16, visit func(name []byte) bool) error {
	defer c.shows()
	more := true
	for cursor, end := storage.SlotCursor(slot), storage.SlotCursor(slot+1); more && cursor < end; {
		next, err := c.Txn.View().Scan(0, cursor, 100, func(name []byte, _ object.Type) {
			more = more && storage.Slot(name) == slot && visit(name)
		})
		if err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	return nil
}

func countKeysInSlot(c *Ctx) error {
	if !c.Env.clustered() {
		return errNoCluster
	}
	slot, ok := ParseInt(c.Arg(2))
	switch {
	case !ok:
		return ErrNotInteger
	case slot < 0 || slot >= storage.Slots:
		return errSlot
	}
	n := int64(0)
	if err := c.eachInSlot(uint16(slot), func([]byte) bool { n++; return true }); err != nil {
		return err
	}
	c.Out.Int(n)
	return nil
}

func getKeysInSlot(c *Ctx) error {
	if !c.Env.clustered() {
		return errNoCluster
	}
	slot, ok := ParseInt(c.Arg(2))
	count, okCount := ParseInt(c.Arg(3))
	switch {
	case !ok || !okCount:
		return ErrNotInteger
	case slot < 0 || slot >= storage.Slots || count < 0:
		return errSlotKeys
	}
	var names [][]byte
	err := c.eachInSlot(uint16(slot), func(name []byte) bool {
		if int64(len(names)) == count {
			return false
		}
		names = append(names, append([]byte(nil), name...))
		return true
	})
	if err != nil {
		return err
	}
	c.Out.Array(len(names))
	for _, name := range names {
		c.Out.Bulk(name)
	}
	return nil
}

// nodeAddress is the address of a node for clients, with its bus port.
type nodeAddress struct {
	ip, hostname   string
	port, tls, bus int
}

// address returns the address of a member of a group.
func (m *Member) address() *nodeAddress {
	return &nodeAddress{ip: m.IP, hostname: m.Hostname, port: m.Port, tls: m.TLSPort, bus: m.Bus}
}

// Announced returns the address of this server as a member of a group: see address. IP is empty if
// no IP is announced.
func (e *Env) Announced() Member {
	a := e.address()
	return Member{Node: e.cluster.Load().id, IP: a.ip, Hostname: a.hostname, Port: a.port,
		TLSPort: a.tls, Bus: a.bus}
}

// address returns the address of this node for clients: the announced IP and host name, and the
// ports. A port that is not announced is the one at which the node listens.
func (e *Env) address() (a nodeAddress) {
	cfg := e.Config
	a.ip, a.hostname = cfg.String("cluster-announce-ip"), cfg.String("cluster-announce-hostname")
	for _, l := range e.Host.Listeners() {
		_, text, _ := net.SplitHostPort(l.Addr)
		port, _ := strconv.Atoi(text)
		switch {
		case l.Kind == "tcp" && a.port == 0:
			a.port = port
		case l.Kind == "tls" && a.tls == 0:
			a.tls = port
		}
	}
	announced := func(to *int, name string) {
		if n := int(cfg.Int(name)); n != 0 {
			*to = n
		}
	}
	announced(&a.port, "cluster-announce-port")
	announced(&a.tls, "cluster-announce-tls-port")
	a.bus = BusPort(cfg, a.port, a.tls)
	announced(&a.bus, "cluster-announce-bus-port")
	return a
}

// BusPort returns the port at which this server listens for other members. That is cluster-port if
// it is set, or else port+10000, or tls+10000 if port is 0. port and tls are the server's ports for
// clients; 0 means that there is none.
func BusPort(cfg *config.Config, port, tls int) int {
	switch {
	case cfg.Int("cluster-port") != 0:
		return int(cfg.Int("cluster-port"))
	case port != 0:
		return port + 10000
	}
	return tls + 10000
}

// clientPort returns the port for the client of c: the TLS port if the client uses TLS, or if the
// node has no other port.
func (a *nodeAddress) clientPort(c *Ctx) int {
	if a.port == 0 || a.tls != 0 && c.Client.Conn != nil && c.Client.Conn.Secure() {
		return a.tls
	}
	return a.port
}

// readOnlyMode returns the handler of READONLY or READWRITE.
func readOnlyMode(on bool) func(*Ctx) error {
	return inCluster(func(c *Ctx, _ *cluster) {
		c.Client.ReadOnly = on
		c.Out.OK()
	})
}
