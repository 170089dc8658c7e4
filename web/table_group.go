package web

import (
	"slices"

	"keyp/commands"
)

// groupMetrics are the metrics of a group of members.
var groupMetrics = []metric{
	{name: "keyp_group_role", kind: gauge, labels: "role",
		help: "1 for what this member does in its group, 0 for what it does not. None of keyp_group_… is there while the server is alone.",
		values: ofGroup(func(g *commands.GroupReport, put func(float64, ...string)) {
			for role := commands.Follower; role <= commands.Joining; role++ {
				put(oneIf(g.Role == role), role.String())
			}
		})},
	{name: "keyp_group_has_leader", kind: gauge,
		help: "1 if this member knows who leads the group.",
		values: ofGroup(func(g *commands.GroupReport, put func(float64, ...string)) {
			put(oneIf(g.Leader != 0))
		})},
	{name: "keyp_group_term", kind: gauge, info: "cluster_raft_term",
		help: "The group's term, which each election raises.",
		values: ofGroup(func(g *commands.GroupReport, put func(float64, ...string)) {
			put(float64(g.Term))
		})},
	{name: "keyp_group_elections_total", kind: counter, info: "cluster_raft_elections",
		help: "Elections of a leader that this member has seen.",
		values: ofGroup(func(g *commands.GroupReport, put func(float64, ...string)) {
			put(float64(g.Progress.Elections))
		})},
	{name: "keyp_group_lease", kind: gauge, info: "cluster_raft_lease",
		help: "1 while this member leads and may answer reads by itself.",
		values: ofGroup(func(g *commands.GroupReport, put func(float64, ...string)) {
			put(oneIf(g.Leased))
		})},
	{name: "keyp_group_members", kind: gauge, labels: "kind",
		info: "cluster_raft_members cluster_raft_voters",
		help: "Members of the group, those that vote and those that do not.",
		values: ofGroup(func(g *commands.GroupReport, put func(float64, ...string)) {
			learners := 0
			for i := range g.Members {
				if g.Members[i].Learner {
					learners++
				}
			}
			put(float64(len(g.Members)-learners), "voter")
			put(float64(learners), "learner")
		})},
	{name: "keyp_group_commit_index", kind: gauge, info: "cluster_raft_commit_index",
		help: "The index of the last entry that is committed, as far as this member knows.",
		values: ofGroup(func(g *commands.GroupReport, put func(float64, ...string)) {
			put(float64(g.Progress.Commit))
		})},
	{name: "keyp_group_commit_lag_bytes", kind: gauge, info: "cluster_raft_commit_lag",
		help: "Bytes of this member's log that are not committed.",
		values: ofGroup(func(g *commands.GroupReport, put func(float64, ...string)) {
			put(float64(g.CommitLag()))
		})},
	{name: "keyp_group_apply_lag_bytes", kind: gauge, info: "cluster_raft_apply_lag",
		help: "Bytes of the log that are committed, and that this member has yet to apply.",
		values: ofGroup(func(g *commands.GroupReport, put func(float64, ...string)) {
			put(float64(g.ApplyLag()))
		})},
	{name: "keyp_group_leader_contact_seconds", kind: gauge,
		help: "Since when the leader was last heard from; at the leader a majority.",
		values: ofGroup(func(g *commands.GroupReport, put func(float64, ...string)) {
			put(g.Progress.Heard.Seconds())
		})},
	{name: "keyp_group_clock_skew_seconds", kind: gauge, info: "cluster_raft_clock_skew_ms",
		help: "How far this machine's clock is ahead of the group's time, which is its leader's.",
		values: ofGroup(func(g *commands.GroupReport, put func(float64, ...string)) {
			put(g.Progress.Skew.Seconds())
		})},
	{name: "keyp_group_snapshots_total", kind: counter, labels: "direction",
		info: "cluster_raft_snapshots_sent cluster_raft_snapshots_received",
		help: "Snapshots that were sent to other members, or received, since the start.",
		values: ofGroup(func(g *commands.GroupReport, put func(float64, ...string)) {
			put(float64(g.Progress.Snapshot.Sent), "sent")
			put(float64(g.Progress.Snapshot.Taken), "received")
		})},
	{name: "keyp_group_snapshot_bytes", kind: gauge,
		info: "cluster_raft_snapshot_in_progress cluster_raft_snapshot_bytes",
		help: "Bytes of the snapshot under way that are sent or received.",
		values: ofGroup(func(g *commands.GroupReport, put func(float64, ...string)) {
			put(float64(g.Progress.Snapshot.Done))
		})},
	{name: "keyp_group_snapshot_size_bytes", kind: gauge, info: "cluster_raft_snapshot_size",
		help: "The size of the snapshot under way; 0: there is none.",
		values: ofGroup(func(g *commands.GroupReport, put func(float64, ...string)) {
			put(float64(g.Progress.Snapshot.Size))
		})},
	{name: "keyp_group_member_up", kind: gauge, labels: "node",
		help: "1 if messages reach another member, where that is known: at the leader; at followers of the leader only.",
		values: perMember(func(m *commands.MemberReport, put func(float64)) {
			if m.UpKnown {
				put(oneIf(m.Up))
			}
		})},
	{name: "keyp_group_member_lag_bytes", kind: gauge, labels: "node",
		help: "Bytes of the log that another member has yet to get on its disk, where that is known: at the leader.",
		values: perMember(func(m *commands.MemberReport, put func(float64)) {
			if m.Lag >= 0 {
				put(float64(m.Lag))
			}
		})},
	{name: "keyp_group_member_contact_seconds", kind: gauge, labels: "node",
		help: "Since when another member was last heard from, where that is known.",
		values: perMember(func(m *commands.MemberReport, put func(float64)) {
			if m.Contact >= 0 {
				put(m.Contact.Seconds())
			}
		})},
	{name: "keyp_group_member_clock_skew_seconds", kind: gauge, labels: "node",
		help: "How far the clock of another member's machine is ahead of the group's time, where that is known: at the leader.",
		values: perMember(func(m *commands.MemberReport, put func(float64)) {
			if m.Skewed {
				put(m.Skew.Seconds())
			}
		})},
	{name: "keyp_group_member_messages_total", kind: counter, labels: "node direction",
		help: "Messages to and from another member, since the start.",
		values: ofGroup(func(g *commands.GroupReport, put func(float64, ...string)) {
			for _, m := range others(g) {
				put(float64(m.Out), m.Node, "sent")
				put(float64(m.In), m.Node, "received")
			}
		})},
}

// ofGroup makes the reader of a metric that only members of a group have.
func ofGroup(read func(g *commands.GroupReport, put func(float64, ...string))) func(*reading,
	func(float64, ...string)) {
	return func(r *reading, put func(float64, ...string)) {
		if r.Group != nil {
			read(r.Group, put)
		}
	}
}

// others returns the reports of all members except this one.
func others(g *commands.GroupReport) []commands.MemberReport {
	return slices.DeleteFunc(g.Reports(), func(m commands.MemberReport) bool { return m.Self })
}

func perMember(read func(m *commands.MemberReport, put func(float64))) func(*reading,
	func(float64, ...string)) {
	return ofGroup(func(g *commands.GroupReport, put func(float64, ...string)) {
		list := others(g)
		for i := range list {
			read(&list[i], func(value float64) { put(value, list[i].Node) })
		}
	})
}

func oneIf(on bool) float64 {
	if on {
		return 1
	}
	return 0
}
