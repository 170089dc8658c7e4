package commands

import (
	"fmt"
	"net"
	"strconv"
	"strings"

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

// Flags of the subcommands that ask, and of those that change the node.
const (
	clusterAsks    = Stale
	clusterChanges = NoAsyncLoading | Admin | Stale
)

var slotRangeArg = block("range", intArg("start-slot"), intArg("end-slot")).many()

var clusterCommands = []Spec{
	{
		Name: "CLUSTER", Group: Cluster, Since: "3.0.0", Arity: -2,
		Summary: "Is about the cluster that the server is a node of, in cluster mode.", Complexity: "Depends on subcommand.",
		Sub: []Spec{
			clusterCommand("ADDSLOTS", "3.0.0", -3, clusterChanges, "Has the node serve hash slots.", "O(N) in the number of slots.",
				nil, changeSlots(true, slotsOf), intArg("slot").many()).scoped(AllKeys),
			clusterCommand("ADDSLOTSRANGE", "7.0.0", -4, clusterChanges, "Has the node serve ranges of hash slots.", "O(N) in the number of slots.",
				nil, changeSlots(true, slotRangesOf), slotRangeArg).scoped(AllKeys),
			clusterCommand("BUMPEPOCH", "3.0.0", 2, clusterChanges, "Raises the node's config epoch, unless it is the largest.", "O(1)",
				[]string{tipRandom}, bumpEpoch).scoped(AllKeys),
			clusterCommand("COUNT-FAILURE-REPORTS", "3.0.0", 3, Admin|Stale, "Counts the nodes that take a node for failed.", "O(1)",
				[]string{tipRandom}, clusterNode(func(c *Ctx, _ *cluster) { c.Out.Int(0) }), stringArg("node-id")),
			clusterCommand("COUNTKEYSINSLOT", "3.0.0", 3, clusterAsks, "Counts the keys of a hash slot.", "O(N) in the number of its keys.",
				nil, countKeysInSlot, intArg("slot")).scoped(AllKeys),
			clusterCommand("DELSLOTS", "3.0.0", -3, clusterChanges, "Has the node serve hash slots no more; their keys stay.", "O(N) in the number of slots.",
				nil, changeSlots(false, slotsOf), intArg("slot").many()).scoped(AllKeys),
			clusterCommand("DELSLOTSRANGE", "7.0.0", -4, clusterChanges, "Has the node serve ranges of hash slots no more; their keys stay.", "O(N) in the number of slots.",
				nil, changeSlots(false, slotRangesOf), slotRangeArg).scoped(AllKeys),
			clusterCommand("FLUSHSLOTS", "3.0.0", 2, clusterChanges, "Has a node without keys serve no hash slots.", "O(1)", nil, flushSlots).scoped(AllKeys),
			clusterCommand("FORGET", "3.0.0", 3, clusterChanges, "Fails: there is no other node.", "O(1)",
				nil, clusterNode(func(c *Ctx, _ *cluster) { c.reply(errForgetMyself) }), stringArg("node-id")),
			clusterCommand("GETKEYSINSLOT", "3.0.0", 4, clusterAsks, "Lists keys of a hash slot.", "O(N) in the number of keys listed.",
				[]string{tipRandom}, getKeysInSlot, intArg("slot"), intArg("count")).scoped(AllKeys),
			clusterHelp(),
			clusterCommand("INFO", "3.0.0", 2, clusterAsks, "Shows the state of the cluster.", "O(1)", []string{tipRandom}, clusterInfo),
			clusterCommand("KEYSLOT", "3.0.0", 3, clusterAsks, "Gives the hash slot of a name.", "O(N) in the bytes of the name.",
				nil, inCluster(func(c *Ctx, _ *cluster) { c.Out.Int(int64(storage.Slot(c.Arg(2)))) }), stringArg("key")),
			clusterCommand("LINKS", "7.0.0", 2, clusterAsks, "Lists the connections to other nodes.", "O(N) in the number of nodes.",
				[]string{tipRandom}, inCluster(func(c *Ctx, _ *cluster) { c.Out.Array(0) })),
			clusterCommand("MYID", "3.0.0", 2, clusterAsks, "Gives the node's id.", "O(1)",
				nil, inCluster(func(c *Ctx, n *cluster) { c.Out.BulkString(n.id) })),
			clusterCommand("MYSHARDID", "7.2.0", 2, clusterAsks, "Gives the id of the node's shard: the nodes with the same slots.", "O(1)",
				[]string{tipRandom}, inCluster(func(c *Ctx, n *cluster) { c.Out.BulkString(n.shard) })),
			clusterCommand("NODES", "3.0.0", 2, clusterAsks, "Lists the nodes and their slots, as text.", "O(N) in the number of nodes.",
				[]string{tipRandom}, inCluster(func(c *Ctx, n *cluster) { c.Out.Verbatim("txt", c.nodeLine(n)+"\n") })),
			clusterCommand("REPLICAS", "5.0.0", 3, Admin|Stale, "Lists the replicas of a node.", "O(N) in the number of replicas.",
				[]string{tipRandom}, clusterNode(func(c *Ctx, _ *cluster) { c.Out.Array(0) }), stringArg("node-id")),
			clusterCommand("RESET", "3.0.0", -2, Admin|NoScript|Stale, "Has a node without keys begin again, without slots.", "O(1)",
				nil, resetCluster, oneOf("reset-type", word("HARD"), word("SOFT")).opt()).scoped(AllKeys),
			clusterCommand("SAVECONFIG", "3.0.0", 2, clusterChanges, "Does nothing: what the node knows is stored with each change.", "O(1)",
				nil, inCluster(func(c *Ctx, _ *cluster) { c.Out.OK() })),
			clusterCommand("SET-CONFIG-EPOCH", "3.0.0", 3, clusterChanges, "Sets the config epoch of a node that has none.", "O(1)",
				nil, setConfigEpoch, intArg("config-epoch")).scoped(AllKeys),
			clusterCommand("SHARDS", "7.0.0", 2, clusterAsks, "Lists the slots, and the nodes that serve them.", "O(N) in the number of nodes.",
				[]string{tipRandom}, clusterShards),
			clusterCommand("SLAVES", "3.0.0", 3, Admin|Stale, "An older name of CLUSTER REPLICAS.", "O(N) in the number of replicas.",
				[]string{tipRandom}, clusterNode(func(c *Ctx, _ *cluster) { c.Out.Array(0) }), stringArg("node-id")),
			clusterCommand("SLOTS", "3.0.0", 2, clusterAsks, "Lists ranges of slots, and the nodes that serve them.", "O(N) in the number of nodes.",
				[]string{tipRandom}, clusterSlots),
		},
	},
	clusterMode("ASKING", "3.0.0", Fast, "Does nothing: no slot is on its way to this node.", inCluster(func(c *Ctx, _ *cluster) { c.Out.OK() })),
	clusterMode("READONLY", "3.0.0", Loading|Stale|Fast, "Says that the connection may read from a replica.", readOnlyMode(true)),
	clusterMode("READWRITE", "3.0.0", Loading|Stale|Fast, "Takes READONLY back.", readOnlyMode(false)),
}

// clusterCommand declares a subcommand of CLUSTER.
func clusterCommand(name, since string, arity int, flags Flags, summary, complexity string, tips []string, run func(*Ctx) error, args ...Arg) Spec {
	return Spec{
		Name: name, Group: Cluster, Since: since, Arity: arity, Flags: flags, Scope: OnLoop,
		Summary: summary, Complexity: complexity, Tips: tips, Args: args, Run: run,
	}
}

func (s Spec) scoped(scope Scope) Spec {
	s.Scope = scope
	return s
}

// clusterMode declares a command by which a connection says what it expects of a node.
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
		"DELSLOTSRANGE <first> <last> [<first> <last> ...]", "    Serve these ranges of slots no more.",
		"FLUSHSLOTS", "    Serve no slots. There must be no keys.",
		"FORGET <node-id>", "    Fails, as there is no other node.",
		"GETKEYSINSLOT <slot> <count>", "    List keys of a slot.",
		"INFO", "    Show the state of the cluster.",
		"KEYSLOT <key>", "    Give the slot of a name.",
		"LINKS", "    List the connections to other nodes.",
		"MYID", "    Give the node's id.",
		"MYSHARDID", "    Give the id of the node's shard.",
		"NODES", "    List the nodes, as text.",
		"REPLICAS <node-id>", "    List the replicas of a node. SLAVES is its older name.",
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

// inCluster gives a handler that fails without cluster mode.
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

// clusterNode is inCluster for subcommands that name a node, which must be this one.
func clusterNode(run func(c *Ctx, n *cluster)) func(*Ctx) error {
	return inCluster(func(c *Ctx, n *cluster) {
		if string(c.Arg(2)) != n.id {
			c.reply(Error(fmt.Sprintf("ERR Unknown node %.100s", c.Arg(2))))
			return
		}
		run(c, n)
	})
}

// change gives a handler that replaces what the node knows.
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
		if err := c.setCluster(other); err != nil {
			return err
		}
		c.Out.OK()
		return nil
	}
}

// slotsOf are the slots that the arguments from the third on name.
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

// slotRangesOf is slotsOf where each two arguments are the ends of a range.
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
			return nil, Error(fmt.Sprintf("ERR start slot number %d is greater than end slot number %d", first, last))
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

// changeSlots gives the handler that adds slots, or removes them.
func changeSlots(add bool, of func(*Ctx) ([][2]uint16, error)) func(*Ctx) error {
	return change(func(c *Ctx, n *cluster) (*cluster, error) {
		list, err := of(c)
		if err != nil {
			return nil, err
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
	case n.own != 0:
		return nil, errNodeEpoch
	}
	next := *n
	next.own, next.epoch = epoch, max(n.epoch, epoch)
	return &next, nil
})

var resetCluster = change(func(c *Ctx, n *cluster) (*cluster, error) {
	a := c.Cursor(2)
	hard := a.Word("HARD")
	if !hard && a.More() && !a.Word("SOFT") || a.More() {
		return nil, ErrSyntax
	}
	if keys, _ := c.Txn.View().Count(0); keys > 0 {
		return nil, errClusterReset
	}
	next := *n.with(slotSet{})
	next.shard = newNodeID()
	if hard {
		next.id, next.epoch, next.own = newNodeID(), 0, 0
	}
	return &next, nil
})

func bumpEpoch(c *Ctx) error {
	n := c.Env.cluster.Load()
	switch {
	case n == nil:
		return errNoCluster
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

// eachInSlot visits keys of a slot, until visit returns false: each once, as all are locked.
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

func clusterInfo(c *Ctx) error {
	n := c.Env.cluster.Load()
	if n == nil {
		return errNoCluster
	}
	var b strings.Builder
	line := func(name, value string) { b.WriteString("cluster_" + name + ":" + value + "\r\n") }
	number := func(name string, value int64) { line(name, strconv.FormatInt(value, 10)) }
	if c.Env.complete(n) {
		line("state", "ok")
	} else {
		line("state", "fail")
	}
	number("slots_assigned", int64(n.served))
	number("slots_ok", int64(n.served))
	number("slots_pfail", 0)
	number("slots_fail", 0)
	number("known_nodes", 1)
	number("size", int64(min(n.served, 1)))
	number("current_epoch", n.epoch)
	number("my_epoch", n.own)
	number("stats_messages_sent", 0)
	number("stats_messages_received", 0)
	b.WriteString("total_cluster_links_buffer_limit_exceeded:0\r\n")
	c.Out.Verbatim("txt", b.String())
	return nil
}

// nodeAddress is where clients reach the node.
type nodeAddress struct {
	ip, hostname   string
	port, tls, bus int
}

// address gives where clients reach the node, for replies: what is announced, else where it listens.
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
	if a.bus = a.port + 10000; a.port == 0 {
		a.bus = a.tls + 10000
	}
	announced(&a.bus, "cluster-announce-bus-port")
	return a
}

// clientPort is the port for the client of c: that for TLS if it speaks TLS.
func (a *nodeAddress) clientPort(c *Ctx) int {
	if a.port == 0 || a.tls != 0 && c.Client.Conn != nil && c.Client.Conn.Secure() {
		return a.tls
	}
	return a.port
}

// nodeLine is the node's line of CLUSTER NODES.
func (c *Ctx) nodeLine(n *cluster) string {
	a := c.Env.address()
	host := fmt.Sprintf("%s:%d@%d", a.ip, a.clientPort(c), a.bus)
	if a.hostname != "" {
		host += "," + a.hostname
	}
	line := fmt.Sprintf("%s %s myself,master - 0 0 %d connected", n.id, host, n.own)
	if slots := n.slots.text(); slots != "" {
		line += " " + slots
	}
	return line
}

// endpoint writes how clients are to reach the node, as cluster-preferred-endpoint-type says.
func (a *nodeAddress) endpoint(c *Ctx) {
	switch c.Env.Config.String("cluster-preferred-endpoint-type") {
	case "hostname":
		if a.hostname == "" {
			c.Out.BulkString("?")
			return
		}
		c.Out.BulkString(a.hostname)
	case "unknown-endpoint":
		c.Out.Null()
	default:
		c.Out.BulkString(a.ip)
	}
}

func clusterSlots(c *Ctx) error {
	n := c.Env.cluster.Load()
	if n == nil {
		return errNoCluster
	}
	a, ranges := c.Env.address(), n.slots.ranges()
	preferred := c.Env.Config.String("cluster-preferred-endpoint-type")
	c.Out.Array(len(ranges))
	for _, r := range ranges {
		c.Out.Array(3)
		c.Out.Int(int64(r[0]))
		c.Out.Int(int64(r[1]))
		c.Out.Array(4)
		a.endpoint(c)
		c.Out.Int(int64(a.clientPort(c)))
		c.Out.BulkString(n.id)
		var more []string
		if preferred != "ip" {
			more = append(more, "ip", a.ip)
		}
		if preferred != "hostname" && a.hostname != "" {
			more = append(more, "hostname", a.hostname)
		}
		c.Out.Map(len(more) / 2)
		for _, text := range more {
			c.Out.BulkString(text)
		}
	}
	return nil
}

func clusterShards(c *Ctx) error {
	n := c.Env.cluster.Load()
	if n == nil {
		return errNoCluster
	}
	a, ranges := c.Env.address(), n.slots.ranges()
	c.Out.Array(1)
	c.Out.Map(2)
	c.Out.BulkString("slots")
	c.Out.Array(2 * len(ranges))
	for _, r := range ranges {
		c.Out.Int(int64(r[0]))
		c.Out.Int(int64(r[1]))
	}
	c.Out.BulkString("nodes")
	c.Out.Array(1)
	fields := 6
	for _, there := range []bool{a.port != 0, a.tls != 0, a.hostname != ""} {
		if there {
			fields++
		}
	}
	c.Out.Map(fields)
	c.textField("id", n.id)
	if a.port != 0 {
		c.intField("port", int64(a.port))
	}
	if a.tls != 0 {
		c.intField("tls-port", int64(a.tls))
	}
	c.textField("ip", a.ip)
	c.Out.BulkString("endpoint")
	a.endpoint(c)
	if a.hostname != "" {
		c.textField("hostname", a.hostname)
	}
	c.textField("role", "master")
	c.intField("replication-offset", 0)
	c.textField("health", "online")
	return nil
}

// readOnlyMode gives the handler of READONLY or READWRITE.
func readOnlyMode(on bool) func(*Ctx) error {
	return inCluster(func(c *Ctx, _ *cluster) {
		c.Client.ReadOnly = on
		c.Out.OK()
	})
}
