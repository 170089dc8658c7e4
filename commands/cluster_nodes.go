package commands

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// These subcommands of CLUSTER show nodes: one node that is alone, or the members of a group. In a
// group the leader is the master and has all slots; the other members are its replicas.

const errNotMaster Error = "ERR The specified node is not a master"

// node is a node of the cluster, as replies show it.
type node struct {
	id     string
	at     *nodeAddress
	myself bool
	master string // the id of its master; "": it is one itself
	epoch  int64
	heard  int64 // Unix ms
	health string
	offset uint64
	slots  *slotSet // nil: it has none
}

// Health of a node, as CLUSTER SHARDS names it.
const (
	nodeOnline  = "online"
	nodeFailed  = "failed"
	nodeLoading = "loading"
)

// nodes lists the nodes, this server first.
func (c *Ctx) nodes(n *cluster) []node {
	st := c.Env.groupStatus()
	if st == nil {
		a := c.Env.address()
		return []node{{id: n.id, at: &a, myself: true, epoch: n.own, health: nodeOnline,
			slots: &n.slots}}
	}
	progress := c.Env.group.Progress()
	now, master := c.Txn.Now(), c.Env.lastLeader(st)
	list := make([]node, 0, len(st.Members))
	for i := range st.Members {
		m := &st.Members[i]
		to := node{id: m.Node, at: m.address(), myself: m.ID == st.ID, epoch: epochOf(st),
			heard: now / 1000 * 1000, health: nodeOnline}
		if m.ID == master {
			to.slots = &allSlots
		} else if l := st.Member(master); l != nil {
			to.master = l.Node
		}
		if p := progress.of(m.ID); p != nil {
			to.offset = p.SyncedLSN
			to.heard = 0
			if p.Contact >= 0 {
				to.heard = max(0, now-p.Contact.Milliseconds())
			}
			if !p.Connected {
				to.health = nodeFailed
			}
		}
		switch {
		case to.myself:
			to.offset = progress.AppliedLSN
			if st.Role == Joining || st.Role == Rebuilding {
				to.health = nodeLoading
			}
		case m.Learner && to.health == nodeOnline:
			to.health = nodeLoading
		}
		list = append(list, to)
	}
	slices.SortStableFunc(list, func(a, b node) int {
		switch {
		case a.myself == b.myself:
			return strings.Compare(a.id, b.id)
		case a.myself:
			return -1
		}
		return 1
	})
	return list
}

// of returns the progress of the member with an id; nil if it is not known.
func (p *GroupProgress) of(id uint64) *MemberProgress {
	for i := range p.Members {
		if p.Members[i].ID == id {
			return &p.Members[i]
		}
	}
	return nil
}

// allSlots is the set of all slots.
var allSlots = func() (s slotSet) {
	for i := range s {
		s[i] = math.MaxUint64
	}
	return s
}()

// epochOf returns the config epoch of a group's nodes: the group's term.
func epochOf(st *GroupStatus) int64 { return int64(min(st.Term, math.MaxInt64)) }

// lastLeader returns the member that leads. If none is known, it returns the last leader that this
// server knew, so that clients keep asking that one.
func (e *Env) lastLeader(st *GroupStatus) uint64 {
	if st.Leader != 0 {
		e.leader = st.Leader
	}
	return e.leader
}

// inNodes returns a handler that calls run with the list of nodes. It fails outside of cluster
// mode.
func inNodes(run func(c *Ctx, list []node) error) func(*Ctx) error {
	return func(c *Ctx) error {
		n := c.Env.cluster.Load()
		if n == nil {
			return errNoCluster
		}
		return run(c, c.nodes(n))
	}
}

// ofNode is inNodes for subcommands that name a node.
func ofNode(run func(c *Ctx, of *node, list []node) error) func(*Ctx) error {
	return inNodes(func(c *Ctx, list []node) error {
		for i := range list {
			if list[i].id == string(c.Arg(2)) {
				return run(c, &list[i], list)
			}
		}
		return errUnknownNode(c.Arg(2))
	})
}

func errUnknownNode(id []byte) Error { return Error(fmt.Sprintf("ERR Unknown node %.100s", id)) }

func clusterNodes(c *Ctx, list []node) error {
	var b strings.Builder
	for i := range list {
		b.WriteString(list[i].line(c) + "\n")
	}
	c.Out.Verbatim("txt", b.String())
	return nil
}

// line returns the line of the node in CLUSTER NODES.
func (n *node) line(c *Ctx) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s:%d@%d", n.id, n.at.ip, n.at.clientPort(c), n.at.bus)
	if n.at.hostname != "" {
		b.WriteString("," + n.at.hostname)
	}
	b.WriteByte(' ')
	if n.myself {
		b.WriteString("myself,")
	}
	master, link := "-", "connected"
	if n.master == "" {
		b.WriteString("master")
	} else {
		b.WriteString("slave")
		master = n.master
	}
	if n.health == nodeFailed {
		b.WriteString(",fail")
		link = "disconnected"
	}
	fmt.Fprintf(&b, " %s 0 %d %d %s", master, n.heard, n.epoch, link)
	if n.slots != nil {
		if text := n.slots.text(); text != "" {
			b.WriteString(" " + text)
		}
	}
	return b.String()
}

func clusterReplicas(c *Ctx, of *node, list []node) error {
	if of.master != "" {
		return errNotMaster
	}
	replicas := slices.DeleteFunc(slices.Clone(list), func(n node) bool {
		return n.master != of.id
	})
	c.Out.Array(len(replicas))
	for i := range replicas {
		c.Out.BulkString(replicas[i].line(c))
	}
	return nil
}

// preferred returns the address for clients that cluster-preferred-endpoint-type selects.
func (a *nodeAddress) preferred(e *Env) string {
	switch e.Config.String("cluster-preferred-endpoint-type") {
	case "hostname":
		if a.hostname == "" {
			return "?"
		}
		return a.hostname
	case "unknown-endpoint":
		return ""
	}
	return a.ip
}

// endpoint writes the preferred address, or null if it is to be unknown.
func (a *nodeAddress) endpoint(c *Ctx) {
	if c.Env.Config.String("cluster-preferred-endpoint-type") == "unknown-endpoint" {
		c.Out.Null()
		return
	}
	c.Out.BulkString(a.preferred(c.Env))
}

// masterFirst sorts the nodes so that the one with slots comes before its replicas.
func masterFirst(list []node) []node {
	slices.SortStableFunc(list, func(a, b node) int { return strings.Compare(a.master, b.master) })
	return list
}

func clusterSlots(c *Ctx, list []node) error {
	list = slices.DeleteFunc(masterFirst(list), func(n node) bool {
		return n.master != "" && n.health != nodeOnline
	})
	var ranges [][2]uint16
	if len(list) > 0 && list[0].slots != nil {
		ranges = list[0].slots.ranges()
	}
	c.Out.Array(len(ranges))
	for _, r := range ranges {
		c.Out.Array(2 + len(list))
		c.Out.Int(int64(r[0]))
		c.Out.Int(int64(r[1]))
		for i := range list {
			list[i].inSlots(c)
		}
	}
	return nil
}

// inSlots writes a node of CLUSTER SLOTS.
func (n *node) inSlots(c *Ctx) {
	preferred := c.Env.Config.String("cluster-preferred-endpoint-type")
	c.Out.Array(4)
	n.at.endpoint(c)
	c.Out.Int(int64(n.at.clientPort(c)))
	c.Out.BulkString(n.id)
	var more []string
	if preferred != "ip" {
		more = append(more, "ip", n.at.ip)
	}
	if preferred != "hostname" && n.at.hostname != "" {
		more = append(more, "hostname", n.at.hostname)
	}
	c.Out.Map(len(more) / 2)
	for _, text := range more {
		c.Out.BulkString(text)
	}
}

func clusterShards(c *Ctx, list []node) error {
	list = masterFirst(list)
	var ranges [][2]uint16
	if list[0].slots != nil {
		ranges = list[0].slots.ranges()
	}
	c.Out.Array(1)
	c.Out.Map(2)
	c.Out.BulkString("slots")
	c.Out.Array(2 * len(ranges))
	for _, r := range ranges {
		c.Out.Int(int64(r[0]))
		c.Out.Int(int64(r[1]))
	}
	c.Out.BulkString("nodes")
	c.Out.Array(len(list))
	for i := range list {
		list[i].inShards(c)
	}
	return nil
}

// inShards writes a node of CLUSTER SHARDS.
func (n *node) inShards(c *Ctx) {
	a, fields := n.at, 6
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
	if n.master == "" {
		c.textField("role", "master")
	} else {
		c.textField("role", "replica")
	}
	c.intField("replication-offset", int64(n.offset))
	c.textField("health", n.health)
}

// clusterLinks replies with the connections to other members. Each member has two: to it and from
// it.
func clusterLinks(c *Ctx, _ *cluster) {
	st := c.Env.groupStatus()
	if st == nil {
		c.Out.Array(0)
		return
	}
	progress := c.Env.group.Progress()
	linked := slices.DeleteFunc(progress.Members, func(p MemberProgress) bool {
		return p.Created == 0 || st.Member(p.ID) == nil
	})
	c.Out.Array(2 * len(linked))
	for i := range linked {
		p := &linked[i]
		for _, direction := range []string{"to", "from"} {
			events, unsent := "r", int64(0)
			if direction == "to" && p.Unsent > 0 {
				events, unsent = "rw", p.Unsent
			}
			c.Out.Map(6)
			c.textField("direction", direction)
			c.textField("node", st.Member(p.ID).Node)
			c.intField("create-time", p.Created)
			c.textField("events", events)
			c.intField("send-buffer-allocated", unsent)
			c.intField("send-buffer-used", unsent)
		}
	}
}

func clusterInfo(c *Ctx) error {
	n := c.Env.cluster.Load()
	if n == nil {
		return errNoCluster
	}
	var b infoText
	st := c.Env.groupStatus()
	state, served, known, current, own := "ok", int64(n.served), int64(1), n.epoch, n.own
	var sent, received int64
	if st == nil {
		if !c.Env.complete(n) {
			state = "fail"
		}
	} else {
		if !st.decided() {
			state = "fail"
		}
		served, known = int64(allSlots.len()), int64(len(st.Members))
		current, own = epochOf(st), epochOf(st)
		for _, p := range c.Env.group.Progress().Members {
			sent, received = sent+p.Out, received+p.In
		}
	}
	b.field("cluster_state", state)
	b.int("cluster_slots_assigned", served)
	b.int("cluster_slots_ok", served)
	b.int("cluster_slots_pfail", 0)
	b.int("cluster_slots_fail", 0)
	b.int("cluster_known_nodes", known)
	b.int("cluster_size", min(served, 1))
	b.int("cluster_current_epoch", current)
	b.int("cluster_my_epoch", own)
	b.int("cluster_stats_messages_sent", sent)
	b.int("cluster_stats_messages_received", received)
	b.int("total_cluster_links_buffer_limit_exceeded", 0)
	if st != nil {
		c.Env.infoGroup(st, &b)
	}
	c.Out.Verbatim("txt", b.String())
	return nil
}

// infoGroup writes the fields about a group in CLUSTER INFO and INFO.
func (e *Env) infoGroup(st *GroupStatus, b *infoText) {
	p := e.group.Progress()
	leader, voters := "", int64(0)
	for i := range st.Members {
		if m := &st.Members[i]; m.ID == st.Leader {
			leader = m.Node
		}
		if !st.Members[i].Learner {
			voters++
		}
	}
	b.field("cluster_raft_role", st.Role.String())
	b.field("cluster_raft_leader", leader)
	b.field("cluster_raft_term", strconv.FormatUint(st.Term, 10))
	b.int("cluster_raft_members", int64(len(st.Members)))
	b.int("cluster_raft_voters", voters)
	b.field("cluster_raft_commit_index", strconv.FormatUint(p.Commit, 10))
	b.field("cluster_raft_applied_index", strconv.FormatUint(p.Applied, 10))
	b.field("cluster_raft_last_index", strconv.FormatUint(p.Last, 10))
	b.int("cluster_raft_commit_lag", p.commitLag())
	b.int("cluster_raft_apply_lag", p.applyLag())
	b.flag("cluster_raft_lease", st.Role == Leader && e.group.Leased(st.Term))
	b.int("cluster_raft_elections", p.Elections)
	b.int("cluster_raft_clock_skew_ms", p.Skew.Milliseconds())
	b.flag("cluster_raft_snapshot_in_progress", p.Snapshot.Member != 0)
	b.int("cluster_raft_snapshot_bytes", p.Snapshot.Done)
	b.int("cluster_raft_snapshot_size", p.Snapshot.Size)
	b.int("cluster_raft_snapshots_sent", p.Snapshot.Sent)
	b.int("cluster_raft_snapshots_received", p.Snapshot.Taken)
}

// commitLag returns how many bytes of the log are not committed. applyLag returns how many
// committed bytes are not applied.
func (p *GroupProgress) commitLag() int64 { return int64(max(p.EndLSN, p.CommitLSN) - p.CommitLSN) }
func (p *GroupProgress) applyLag() int64 {
	return int64(max(p.CommitLSN, p.AppliedLSN) - p.AppliedLSN)
}

func clusterMyID(c *Ctx, list []node) error {
	c.Out.BulkString(list[0].id)
	return nil
}
