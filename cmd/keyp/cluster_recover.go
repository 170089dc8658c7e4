package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"keyp/internal/target"
	"keyp/member"
	"keyp/storage"
)

// recoverGroup makes a new data directory from the directory of a member. It is for a group that
// has lost its majority.
func recoverGroup(ctx context.Context, dir, to string, sure bool, out io.Writer) error {
	began, meter := time.Now(), toolProgress()
	store, found, closed, err := member.OpenClosed(toolOptions(dir, meter), true)
	if errors.Is(err, storage.ErrAlone) {
		err = errors.New(
			"it belongs to a server that is alone, and needs no recovery: start the server with it")
	}
	if err != nil {
		return fmt.Errorf("%s is not recovered: %w", dir, inUse(err))
	}
	defer func() { _ = store.Close(false) }() // it was only read
	store.SetDiskReserve(0)
	if err := describeLoss(out, dir, closed); err != nil {
		return err
	}
	if !sure {
		return fmt.Errorf("nothing is done yet: with --yes %s is made of this", to)
	}
	err = newDir(to, target.Unfinished, func(part string) error {
		meter.Begin("recovering")
		defer meter.End()
		return closed.Recover(ctx, store, toolOptions(part, meter))
	})
	if err != nil {
		return fmt.Errorf("%s is not recovered: %w", dir, err)
	}
	_, err = fmt.Fprintf(out,
		"%s has %s, %d with a deadline, recovered in %v; it is the directory of a server that is alone\n"+
			"start that server and two with empty directories, all with cluster-enabled yes; then: keyp cluster create ADDR EMPTYADDR EMPTYADDR\n"+
			"do not start a member of the old group again: %s is left as it is, to be kept until the new group has all data\n",
		to, count(found.Keys, "key"), found.Deadlines, time.Since(began).Round(time.Millisecond),
		dir)
	return err
}

// describeLoss describes the data that a directory has of its group, and the data that may be lost.
func describeLoss(out io.Writer, dir string, c *member.Closed) error {
	var names []string
	me := c.Node
	for _, m := range c.Members {
		name := net.JoinHostPort(m.IP, strconv.Itoa(cmp.Or(m.Port, m.TLSPort)))
		if m.ID == c.ID {
			me = name
		} else {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var b strings.Builder
	fmt.Fprintf(&b, "%s is that of the member %s, in a group with %s\n", dir, me,
		strings.Join(names, ", "))
	fmt.Fprintf(&b, "its log ends with entry %d of term %d, written at about %s\n", c.Last,
		c.LastTerm, instant(c.Written.UnixMilli()))
	switch more := c.Last - c.Committed; more {
	case 0:
		fmt.Fprintf(&b, "all of its entries are known to be committed\n")
	case 1:
		fmt.Fprintf(&b,
			"its last entry is not known to be committed: it is taken, too, since a majority may have had it\n")
	default:
		fmt.Fprintf(&b,
			"its last %d entries are not known to be committed: they are taken, too, since a majority may have had them\n",
			more)
	}
	if c.Part > 0 {
		fmt.Fprintf(&b,
			"the last transaction is not whole, and is not taken: it was never acknowledged, unless other members had all of it\n")
	}
	fmt.Fprintf(&b,
		"entries after %d that other members had are lost: acknowledged writes may be among them\n",
		c.Last)
	fmt.Fprintf(&b,
		"if another member's directory is left, too, take the one whose last entry has the higher term, or in the same term the higher number\n")
	_, err := io.WriteString(out, b.String())
	return err
}
