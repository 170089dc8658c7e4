package web

import (
	"net"
	"strconv"

	"keyp/commands"
)

// groupUse is the state of a group in the dashboard. Times are in ms.
type groupUse struct {
	Role      string      `json:"role"`
	Waiting   string      `json:"waiting,omitempty"` // for what this member does
	Term      uint64      `json:"term"`
	Elections int64       `json:"elections"`
	Lease     bool        `json:"lease"`
	CommitLag int64       `json:"commit_lag"`
	ApplyLag  int64       `json:"apply_lag"`
	Heard     int64       `json:"heard"`
	Skew      int64       `json:"skew"`
	Receiving bool        `json:"receiving"`
	Done      int64       `json:"snapshot_done"`
	Size      int64       `json:"snapshot_size"` // 0: no snapshot is under way
	Members   []memberUse `json:"members"`
}

// memberUse is the state of a member; -1: not known.
type memberUse struct {
	Node    string `json:"node"`
	At      string `json:"at"`
	Self    bool   `json:"self"`
	Leads   bool   `json:"leads"`
	Learner bool   `json:"learner"`
	Up      *bool  `json:"up"` // null: not known
	Lag     int64  `json:"lag"`
	Contact int64  `json:"contact"`
	Unsent  int64  `json:"unsent"`
}

// useOf converts a report; it returns nil if there is no group.
func useOf(g *commands.GroupReport) *groupUse {
	if g == nil {
		return nil
	}
	p := &g.Progress
	use := &groupUse{
		Role: g.Role.String(), Waiting: g.Waiting(), Term: g.Term, Elections: p.Elections,
		Lease: g.Leased, CommitLag: g.CommitLag(), ApplyLag: g.ApplyLag(),
		Heard: p.Heard.Milliseconds(), Skew: p.Skew.Milliseconds(), Receiving: p.Snapshot.Receiving,
		Members: []memberUse{},
	}
	if p.Snapshot.Member != 0 {
		use.Done, use.Size = p.Snapshot.Done, p.Snapshot.Size
	}
	for _, m := range g.Reports() {
		to := memberUse{Node: m.Node, Self: m.Self, Leads: m.Leads, Learner: m.Learner, Lag: m.Lag,
			Contact: -1, Unsent: m.Unsent}
		if m.UpKnown {
			to.Up = &m.Up
		}
		if m.Contact >= 0 {
			to.Contact = m.Contact.Milliseconds()
		}
		host, port := m.IP, m.Port
		if m.Hostname != "" {
			host = m.Hostname
		}
		if port == 0 {
			port = m.TLSPort
		}
		to.At = net.JoinHostPort(host, strconv.Itoa(port))
		use.Members = append(use.Members, to)
	}
	return use
}
