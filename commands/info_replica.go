package commands

import (
	"fmt"
	"strings"
	"time"
)

func infoCluster(c *Ctx, b *infoText) {
	b.flag("cluster_enabled", c.Env.clustered())
	if st := c.Env.groupStatus(); st != nil {
		c.Env.infoGroup(st, b)
	}
}

// infoReplication writes Redis's fields. Offsets are LSNs, which are the same at all members.
func infoReplication(c *Ctx, b *infoText) {
	e := c.Env
	st := e.groupStatus()
	id, offset := e.RunID, int64(0)
	switch {
	case st == nil:
		b.field("role", "master")
		b.int("connected_slaves", 0)
	case st.master():
		p := e.group.Progress()
		id, offset = st.Shard, int64(p.EndLSN)
		infoMaster(c, b, st, &p)
	default:
		p := e.group.Progress()
		id, offset = st.Shard, int64(p.AppliedLSN)
		infoSlave(c, b, st, &p)
	}
	b.field("master_failover_state", failoverState(st))
	b.field("master_replid", id)
	b.field("master_replid2", strings.Repeat("0", 40))
	b.int("master_repl_offset", offset)
	b.int("second_repl_offset", -1)
	b.int("repl_backlog_active", 0)
	b.int("repl_backlog_size", e.Config.Int("repl-backlog-size"))
	b.int("repl_backlog_first_byte_offset", 0)
	b.int("repl_backlog_histlen", 0)
}

func failoverState(st *GroupStatus) string {
	if st != nil && st.Role == Resigning {
		return "failover-in-progress"
	}
	return "no-failover"
}

func infoMaster(c *Ctx, b *infoText, st *GroupStatus, p *GroupProgress) {
	b.field("role", "master")
	replicas := st.replicas(p)
	b.int("connected_slaves", int64(len(replicas)))
	for i, r := range replicas {
		state := "online"
		if p.Snapshot.Member == r.ID && !p.Snapshot.Receiving {
			state = "send_bulk"
		}
		a := r.address()
		b.field(fmt.Sprintf("slave%d", i), fmt.Sprintf("ip=%s,port=%d,state=%s,offset=%d,lag=%d%s",
			a.ip, a.clientPort(c), state, r.offset, max(0, r.contact/time.Second), r.skew))
	}
}

func infoSlave(c *Ctx, b *infoText, st *GroupStatus, p *GroupProgress) {
	host, port, link := "", 0, "down"
	if leader := st.Member(c.Env.lastLeader(st)); leader != nil {
		a := leader.address()
		host, port = a.ip, a.clientPort(c)
	}
	if st.leader() != nil {
		link = "up"
	}
	b.field("role", "slave")
	b.field("master_host", host)
	b.int("master_port", int64(port))
	b.field("master_link_status", link)
	b.int("master_last_io_seconds_ago", int64(p.Heard/time.Second))
	b.flag("master_sync_in_progress", p.Snapshot.Receiving)
	b.int("slave_read_repl_offset", int64(p.EndLSN))
	b.int("slave_repl_offset", int64(p.AppliedLSN))
	if s := &p.Snapshot; s.Receiving {
		b.int("master_sync_total_bytes", s.Size)
		b.int("master_sync_read_bytes", s.Done)
		b.int("master_sync_left_bytes", s.Size-s.Done)
		b.float("master_sync_perc", 100*ratio(s.Done, s.Size), 2, "")
		b.int("master_sync_last_io_seconds_ago", int64(p.Heard/time.Second))
	}
	if link == "down" {
		b.int("master_link_down_since_seconds", int64(p.Heard/time.Second))
	}
	b.int("slave_priority", c.Env.Config.Int("replica-priority"))
	b.int("slave_read_only", 1)
	b.int("replica_announced", 1)
	b.int("connected_slaves", 0)
}
