package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"keyp/storage/archive"
	"keyp/storage/format"
)

// archiveEntry is one line of the list that keyp restore --list prints about an archive. It says
// that a file begins, that a command removed many keys, or that files are missing.
type archiveEntry struct {
	// LSN is the position before the entry. At the end of the archive, or before a gap in it, LSN
	// is the last position that was read. Time is the time of the last batch that was read, in Unix
	// ms. It is 0 if the archive does not contain a time.
	LSN  uint64
	Time int64
	What string
}

// listArchive visits, in order, the entries of an archive after a position. An entry is the
// beginning of a file, the end of the archive, a removal, or a place after which times are unknown
// or known again. A removal is a batch that empties or exchanges databases, or that deletes at
// least most keys. listArchive also visits gaps and damaged files, and continues after them.
func listArchive(ctx context.Context, from archive.Files, history string, position uint64, most int,
	visit func(archiveEntry) error) (err error) {
	chain, err := archive.Open(from, history, position)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, chain.Close()) }()
	e, file, timed := archiveEntry{LSN: position}, "", true
	say := func(what string) error {
		e.What = what
		return visit(e)
	}
	for {
		last := chain.Last()
		lsn, batch, err := chain.Next()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == io.EOF:
			return say("the archive ends")
		case err != nil:
			if err := say(err.Error()); err != nil {
				return err
			}
			goesOn, ok, err := chain.Skip()
			if err != nil || !ok {
				return err
			}
			e.LSN = goesOn
			if err := say("the archive goes on; a backup from here on is needed"); err != nil {
				return err
			}
			continue
		}
		if at, ok := format.BatchTime(batch); ok && at != 0 {
			e.Time = at
		}
		if lsn <= position {
			continue
		}
		e.LSN = max(last, position)
		if name := chain.File(); name != file {
			file = name
			if err := say(name); err != nil {
				return err
			}
		}
		if now := chain.Timed(); now != timed {
			timed = now
			what := "times are known again"
			if !timed {
				what = "the server ran without its archive: from here on no times are known"
			}
			if err := say(what); err != nil {
				return err
			}
		}
		if what := removal(batch, most); what != "" {
			if err := say("before " + what); err != nil {
				return err
			}
		}
		e.LSN = lsn
	}
}

// removal describes a batch that empties or exchanges databases, or that deletes at least most
// keys. It returns "" for any other batch.
func removal(batch []byte, most int) string {
	var list []string
	deleted := 0
	for f := (format.Fields{Rest: batch}); len(f.Rest) > 0 && !f.Bad; {
		switch r := format.ReadRecord(&f); r.Tag {
		case format.RecFlush:
			list = append(list, fmt.Sprintf("database %d is emptied", r.DB))
		case format.RecSwap:
			list = append(list, fmt.Sprintf("the databases %d and %d are exchanged",
				r.DB, r.OtherDB))
		case format.RecDelete:
			deleted++
		}
	}
	if deleted >= most {
		list = append(list, fmt.Sprintf("%d keys are deleted", deleted))
	}
	if len(list) > 3 {
		list = append(list[:3], fmt.Sprintf("%d more", len(list)-3))
	}
	return strings.Join(list, ", ")
}
