package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"keyp/internal/clock"
	"keyp/member"
	"keyp/storage"
	"keyp/storage/repair"
)

const (
	checkForm  = "usage: keyp check DIR [--verbose]"
	checkUsage = checkForm + `
options: --verbose: print all that is damaged; otherwise some of each kind`
)

// shown is the largest number of damaged places that are printed. shownEach is the largest number
// of them in one part of a file.
const (
	shown     = 100
	shownEach = 5
)

// toolWait is how long a tool waits for a server that is about to end.
const toolWait = 2 * time.Second

// check verifies a data directory and prints each damaged place. It changes nothing. No server may
// use the directory meanwhile.
func check(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	verbose := flags.Bool("verbose", false, "")
	words, err := parseWords(flags, args)
	if err != nil {
		return fmt.Errorf("%w; %s", err, checkForm)
	}
	if len(words) != 1 {
		return errors.New(checkForm)
	}
	dir := words[0]
	if _, err := os.Stat(dir); err != nil {
		return err
	}
	began := time.Now()
	list := listing{out: out, most: shown, each: shownEach}
	if *verbose {
		list = listing{out: out}
	}
	harmless := list
	report := func(f repair.Finding) {
		part, _, _ := strings.Cut(f.Where, ", entry ")
		if f.Harmless {
			harmless.addOf(part, "harmless: ", f.String())
		} else {
			list.addOf(part, "damage: ", f.String())
		}
	}
	got, err := repair.Inspect(storage.Options{Dir: dir, LockWait: toolWait, Clock: clock.System,
		Logger: slog.New(slog.DiscardHandler), Progress: toolProgress()}, report)
	var group *member.Closed
	if err == nil && got.Member && list.lines == 0 {
		got.Recovered, group, err = checkMember(dir, report)
	}
	if err := errors.Join(err, list.end("damage: "), harmless.end("harmless: ")); err != nil {
		return fmt.Errorf("%s cannot be checked: %w", dir, inUse(err))
	}
	if list.lines > 0 {
		if got.Member {
			return fmt.Errorf("%s belongs to a member of a group and is damaged in %s: %s", dir,
				count(list.lines, "place"), repair.ReplaceMember)
		}
		return fmt.Errorf("%s is damaged in %s; `keyp repair %s NEWDIR` saves what is intact", dir,
			count(list.lines, "place"), dir)
	}
	of, log := "", count(got.Log.Batches, "batch")
	if group != nil {
		of, log = fmt.Sprintf(", and belongs to the member %s of a group", group.Node),
			fmt.Sprintf("entries up to %d, of which those up to %d are known to be committed,",
				group.Last, group.Committed)
	}
	_, err = fmt.Fprintf(out,
		"%s is sound%s: %s, %d with a deadline, %s in the log, %s and %s in the data file, checked in %v\n",
		dir, of, count(got.Keys, "key"), got.Deadlines, log, count(got.Elements, "element"),
		count(got.Pages, "page"), time.Since(began).Round(time.Millisecond))
	return err
}

// checkMember verifies the log in the directory of a member of a group. It also verifies the data
// together with all entries that the log marks as committed.
func checkMember(dir string,
	report func(repair.Finding)) (storage.Recovered, *member.Closed, error) {
	o := toolOptions(dir, toolProgress())
	o.Logger = slog.New(slog.DiscardHandler)
	s, found, closed, err := member.OpenClosed(o, false)
	switch {
	case errors.Is(err, member.ErrNotReady), errors.Is(err, storage.ErrLocked):
		return found, closed, err
	case err != nil:
		report(repair.Finding{Where: dir, What: err.Error()})
		return found, closed, nil
	}
	return found, closed, errors.Join(repair.Prove(s, dir, report), s.Close(false))
}

// inUse adds an explanation to the error that the directory is in use. It returns any other error
// unchanged.
func inUse(err error) error {
	if errors.Is(err, storage.ErrLocked) {
		return fmt.Errorf("%w; a server runs on it, or one that was stopped has not ended yet", err)
	}
	return err
}

// listing prints lines of one kind. It prints at most most lines in all, and at most each lines
// about one part. 0 means no limit.
type listing struct {
	out        io.Writer
	most, each int
	lines      int
	printed    int
	parts      map[string]int // lines by part
	err        error
}

func (l *listing) add(kind, text string) { l.addOf("", kind, text) }

// addOf adds a line about a part.
func (l *listing) addOf(part, kind, text string) {
	if l.parts == nil {
		l.parts = map[string]int{}
	}
	l.lines++
	l.parts[part]++
	if (l.most == 0 || l.printed < l.most) && (l.each == 0 || l.parts[part] <= l.each) &&
		l.err == nil {
		l.printed++
		_, l.err = fmt.Fprintln(l.out, kind+text)
	}
}

// end prints how many lines were left out, by part.
func (l *listing) end(kind string) error {
	for _, part := range slices.Sorted(maps.Keys(l.parts)) {
		if more := l.parts[part] - l.each; l.each > 0 && more > 0 && l.err == nil {
			l.printed += more
			_, l.err = fmt.Fprintf(l.out, "%s%s: %d more\n", kind, part, more)
		}
	}
	if more := l.lines - l.printed; more > 0 && l.err == nil {
		_, l.err = fmt.Fprintf(l.out, "%sand %d more\n", kind, more)
	}
	return l.err
}

// count returns a number with its noun, in the plural unless the number is 1.
func count[N int | int64](n N, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "s"), strings.HasSuffix(what, "ch"):
		what += "es"
	default:
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}
