package commands

import (
	"fmt"
	"net/netip"
	"strings"
)

// These subcommands of CLUSTER change a group. The client waits until the change is done or has
// failed.

const (
	errNoMember       Error = "ERR This server can't be a member of a group"
	errNotInGroup     Error = "ERR This server is alone, and no member of a group"
	errGroupSlots     Error = "ERR All slots are served by the group that this server is a member of"
	errEpochAlone     Error = "ERR The user can assign a config epoch only when the node does not know any other node."
	errMyMaster       Error = "ERR Can't forget my master!"
	errMyself         Error = "ERR Can't replicate myself"
	errToReplica      Error = "ERR You should send CLUSTER FAILOVER to a replica"
	errTakeover       Error = "ERR CLUSTER FAILOVER TAKEOVER would give up what others have acknowledged; use FORCE"
	errChangeNested   Error = "ERR The members of a group can't be changed within a transaction or a script"
	errGroupedAlready Error = "ERR This server is a member of a group already"
)

// act calls begin, which starts a change of the group. The client waits, and gets the reply when
// begin calls done.
func (c *Ctx) act(begin func(m Membership, done func(error))) error {
	m := c.Env.group
	switch {
	case !c.Env.clustered():
		return errNoCluster
	case m == nil:
		return errNoMember
	case c.Nested:
		return errChangeNested
	}
	return c.waitFor(BlockedOn{Works: true, Begin: func(done func(func(*Ctx))) func() {
		begin(m, func(err error) {
			done(func(c *Ctx) {
				if err == nil {
					c.Out.OK()
					return
				}
				c.Env.Stats.Errors.Add(1)
				c.Out.Error(string(actionError(err)))
			})
		})
		return nil
	}})
}

// actionError returns the error reply for an action that has failed.
func actionError(err error) Error {
	if e, ok := err.(Error); ok {
		return e
	}
	return Error("ERR " + strings.TrimPrefix(err.Error(), "ERR "))
}

func clusterFound(c *Ctx) error {
	if c.Env.groupStatus() != nil {
		return errGroupedAlready
	}
	return c.act(func(m Membership, done func(error)) { m.Found(done) })
}

func clusterMeet(c *Ctx) error {
	if !c.Env.clustered() {
		return errNoCluster
	}
	port, ok := ParseInt(c.Arg(3))
	if !ok {
		return Error(fmt.Sprintf("ERR Invalid TCP base port specified: %.100s", c.Arg(3)))
	}
	bus := int64(0)
	switch len(c.Args) {
	case 4:
	case 5:
		if bus, ok = ParseInt(c.Arg(4)); !ok {
			return Error(fmt.Sprintf("ERR Invalid TCP bus port specified: %.100s", c.Arg(4)))
		}
	default:
		return errArity(c.Spec.full)
	}
	host, err := netip.ParseAddr(string(c.Arg(2)))
	if err != nil || port <= 0 || port > 65535 || bus < 0 || bus > 65535 ||
		bus == 0 && port > 55535 {
		return Error(fmt.Sprintf("ERR Invalid node address specified: %.100s:%.100s",
			c.Arg(2), c.Arg(3)))
	}
	return c.act(func(m Membership, done func(error)) {
		m.Meet(host.String(), int(port), int(bus), done)
	})
}

func clusterReplicate(c *Ctx) error {
	id := string(c.Arg(2))
	n := c.Env.cluster.Load()
	switch st := c.Env.groupStatus(); {
	case n == nil:
		return errNoCluster
	case st != nil && st.Me() != nil && st.Me().Node == id, st == nil && id == n.id:
		return errMyself
	case len(id) != 40:
		return errUnknownNode(c.Arg(2))
	case st != nil:
		for i := range st.Members {
			if st.Members[i].Node == id && st.Members[i].ID == st.Leader {
				c.Out.OK() // it does
				return nil
			}
		}
		return errGroupedAlready
	}
	return c.act(func(m Membership, done func(error)) { m.Replicate(id, done) })
}

func clusterForget(c *Ctx, of *node, list []node) error {
	st := c.Env.groupStatus()
	switch {
	case of.myself:
		return errForgetMyself
	case st != nil && of.master == "":
		return errMyMaster
	}
	id := of.id
	return c.act(func(m Membership, done func(error)) { m.Forget(id, done) })
}

func clusterFailover(c *Ctx) error {
	a := c.Cursor(2)
	force := a.Word("FORCE")
	takeover := !force && a.Word("TAKEOVER")
	st := c.Env.groupStatus()
	switch {
	case !c.Env.clustered():
		return errNoCluster
	case a.More():
		return ErrSyntax
	case st == nil:
		return errNotInGroup
	case takeover:
		return errTakeover
	case st.Role.Leads():
		return errToReplica
	}
	return c.act(func(m Membership, done func(error)) { m.Failover(force, done) })
}

// resetGroup removes a member from its group. A leader that has keys is refused.
func resetGroup(c *Ctx, st *GroupStatus, hard bool) error {
	if st.Role.Leads() {
		if keys, _ := c.Txn.View().Count(0); keys > 0 {
			return errClusterReset
		}
	}
	return c.act(func(m Membership, done func(error)) { m.Reset(hard, done) })
}
