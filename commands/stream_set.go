package commands

import (
	"cmp"

	"keyp/storage"
	"keyp/storage/object"
)

var streamSetCommands = []Spec{
	{
		Name: "XSETID", Group: StreamGroup, Since: "5.0.0",
		Summary:    "Sets the last ID of a stream, and what it counts.",
		Complexity: "O(1)",
		History: [][2]string{{"7.0.0",
			"Added the `entries_added` and `max_deleted_entry_id` arguments."}},
		Arity: -3, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{
			keyArg("key"), stringArg("last-id"),
			intArg("entries-added").after("ENTRIESADDED").opt().since("7.0.0"),
			stringArg("max-deleted-id").after("MAXDELETEDID").opt().since("7.0.0"),
		},
		Run: runXSetID,
	},
	{
		Name: "XCFGSET", Group: StreamGroup, Since: "8.6.0",
		Summary:    "Sets for how long, and for how many additions of a producer, a stream knows idempotent IDs, and how old its entries get.",
		Complexity: "O(1), and O(N) in the idempotent IDs that it forgets.",
		Arity:      -2, Flags: Write | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{
			keyArg("key"),
			intArg("duration").after("IDMP-DURATION").opt(),
			intArg("maxsize").after("IDMP-MAXSIZE").opt(),
			block("maxage-block", intArg("milliseconds").after("MAXAGE"),
				streamRefsArg.opt()).opt(),
		},
		Run: runXCfgSet,
	},
	{
		Name: "XIDMPRECORD", Group: StreamGroup, Since: "8.6.2",
		Summary:    "Gives an entry of a stream an idempotent ID.",
		Complexity: "O(1)",
		Arity:      5, Flags: Write | DenyOOM | Fast,
		Keys: []KeySpec{Key(1, RW|Update)},
		Args: []Arg{keyArg("key"), stringArg("pid"), stringArg("iid"), stringArg("stream-id")},
		Run:  runXIdmpRecord,
	},
}

var eventXSetID = streamEvent("xsetid")

// The errors of XSETID, XCFGSET and XIDMPRECORD.
const (
	errSetAdded      Error = "ERR entries_added must be positive"
	errSetDeleted    Error = "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"
	errSetTooLow     Error = "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"
	errSetBelowTop   Error = "ERR The ID specified in XSETID is smaller than the target stream top item"
	errSetAddedLow   Error = "ERR The entries_added specified in XSETID is smaller than the target stream length"
	errCfgDuration   Error = "ERR IDMP-DURATION must be between 1 and 86400 seconds"
	errCfgDurations  Error = "ERR IDMP-DURATION specified multiple times"
	errCfgMaxSize    Error = "ERR IDMP-MAXSIZE must be between 1 and 10000 entries"
	errCfgMaxSizes   Error = "ERR IDMP-MAXSIZE specified multiple times"
	errCfgNothing    Error = "ERR At least one parameter must be specified"
	errCfgAge        Error = "ERR MAXAGE must be between 0 and 281474976710655 milliseconds, or have a unit, such as 10m"
	errCfgAges       Error = "ERR MAXAGE specified multiple times"
	errRecordPid     Error = "ERR producer ID must be non-empty"
	errRecordIid     Error = "ERR idempotent ID must be non-empty"
	errRecordMissing Error = "ERR No such message in stream"
	errRecordOther   Error = "ERR IID already exists for this producer with a different stream ID"
)

// The settings of a stream without XCFGSET, and their maximum values.
const (
	idempotenceTime = 100 // seconds
	idempotents     = 100
	maxIdempotence  = 86400 // seconds
	maxIdempotents  = 10000
)

func runXSetID(c *Ctx) error {
	a := c.Cursor(2)
	id, added, deleted := a.StreamID(), int64(-1), object.StreamID{}
	for a.More() {
		switch {
		case a.Len() > 1 && a.Word("ENTRIESADDED"):
			if added = a.Int(); added < 0 {
				a.Fail(errSetAdded)
			}
		case a.Len() > 1 && a.Word("MAXDELETEDID"):
			if deleted = a.StreamID(); id.Compare(deleted) < 0 {
				a.Fail(errSetDeleted)
			}
		default:
			a.Fail(ErrSyntax)
		}
	}
	if err := a.Err(); err != nil {
		return err
	}
	k := c.Keys[0]
	s, err := c.Txn.Stream(k)
	if err != nil {
		return err
	}
	v := s.Value()
	last, _ := v.LastEntry()
	switch {
	case !s.Exists():
		return ErrNoSuchKey
	case id.Compare(v.MaxDeleted()) < 0:
		return errSetTooLow
	case id.Compare(last) < 0:
		return errSetBelowTop
	case added >= 0 && int64(v.Entries()) > added:
		return errSetAddedLow
	}
	total := v.Added()
	if added >= 0 {
		total = uint64(added)
	}
	if deleted == (object.StreamID{}) {
		deleted = v.MaxDeleted()
	}
	if id.Compare(v.LastID()) < 0 && v.Len() >= manyElements && c.mayOffload() {
		return errOffload
	}
	var behind [][]byte
	v.EachGroup(func(g *object.StreamGroup) bool { // none has read more than was added, as in Redis
		if g.EntriesRead() > int64(total) {
			behind = append(behind, g.Name())
		}
		return true
	})
	for _, name := range behind {
		s.SetGroup(name, v.Group(name).LastID, int64(total))
	}
	s.SetID(id, total, deleted)
	c.Txn.Notify(k, eventXSetID)
	c.Out.OK()
	return nil
}

// runXCfgSet checks the key before it parses the options, as Redis does.
func runXCfgSet(c *Ctx) error {
	s, err := c.Txn.Stream(c.Keys[0])
	switch {
	case err != nil:
		return err
	case !s.Exists():
		return ErrNoSuchKey
	}
	set, err := parseCfg(c.Cursor(2))
	if err != nil {
		return err
	}
	oldDuration, oldSize := idempotence(s.Value())
	duration, maxSize := set.duration, set.maxSize
	if duration < 0 {
		duration = oldDuration
	}
	if maxSize < 0 {
		maxSize = oldSize
	}
	if duration != oldDuration || maxSize != oldSize {
		if s.Value().Idempotents() >= manyElements && c.mayOffload() {
			return errOffload
		}
		s.SetIdempotence(duration, maxSize)
	}
	if set.age >= 0 {
		s.SetAge(set.age, object.StreamRefs(max(set.refs, keepRef)))
	}
	c.Out.OK()
	return nil
}

// streamCfg contains the settings of XCFGSET. A setting that is not given is -1.
type streamCfg struct {
	duration, maxSize, age int64
	refs                   streamRefs
}

func parseCfg(a Cursor) (set streamCfg, err error) {
	set = streamCfg{duration: -1, maxSize: -1, age: -1}
	bounded := func(value *int64, take func() int64, least, most int64, twice, out Error) {
		if *value != -1 {
			a.Fail(twice)
		}
		if *value = take(); a.Err() == nil && (*value < least || *value > most) {
			a.Fail(out)
		}
	}
	for a.More() {
		switch {
		case a.Len() > 1 && a.Word("IDMP-DURATION"):
			bounded(&set.duration, a.Int, 1, maxIdempotence, errCfgDurations, errCfgDuration)
		case a.Len() > 1 && a.Word("IDMP-MAXSIZE"):
			bounded(&set.maxSize, a.Int, 1, maxIdempotents, errCfgMaxSizes, errCfgMaxSize)
		case a.Len() > 1 && a.Word("MAXAGE"):
			age := func() int64 { return a.Duration(0, errCfgAge) }
			bounded(&set.age, age, 0, object.MaxStreamAge, errCfgAges, errCfgAge)
		case set.age >= 0 && set.refs.option(&a):
		default:
			a.Fail(ErrSyntax)
		}
	}
	if a.Err() == nil && set.duration < 0 && set.maxSize < 0 && set.age < 0 {
		a.Fail(errCfgNothing)
	}
	return set, a.Err()
}

// idempotence returns for how many seconds a stream keeps idempotent IDs, and how many of each
// producer.
func idempotence(s *object.Stream) (seconds, most int64) {
	seconds, most = s.Idempotence()
	return cmp.Or(seconds, idempotenceTime), cmp.Or(most, idempotents)
}

// knownEntry returns the entry that a producer has added with an idempotent ID, unless that was too
// long ago.
func (c *Ctx) knownEntry(s *storage.Stream, producer, iid []byte) (id object.StreamID, known bool) {
	if id, known = c.idempotent(s, producer, iid); known {
		s.Duplicate()
	}
	return id, known
}

// manyIdempotents is the maximum number of idempotent IDs that a command forgets. It is more than a
// command adds.
const manyIdempotents = 100

// idempotent is knownEntry without counting. It removes some of the idempotent IDs whose time has
// passed from the stream.
func (c *Ctx) idempotent(s *storage.Stream, producer, iid []byte) (id object.StreamID, known bool) {
	seconds, _ := idempotence(s.Value())
	since := c.Txn.Now() - seconds*1000 + 1
	s.ForgetIdempotent(since, manyIdempotents)
	id, known = s.Value().Idempotent(producer, iid)
	return id, known && id.Ms >= uint64(max(since, 0))
}

func runXIdmpRecord(c *Ctx) error {
	id, err := streamID(c.Arg(4))
	producer, iid := c.Arg(2), c.Arg(3)
	switch {
	case err != nil:
		return err
	case len(producer) == 0:
		return errRecordPid
	case len(iid) == 0:
		return errRecordIid
	}
	s, err := c.Txn.Stream(c.Keys[0])
	switch {
	case err != nil:
		return err
	case !s.Exists():
		return ErrNoSuchKey
	}
	if err := c.haveIDs(&s, []object.StreamID{id}); err != nil {
		return err
	}
	if _, there := s.Value().Get(id); !there {
		return errRecordMissing
	}
	other, known := c.idempotent(&s, producer, iid)
	switch {
	case !known:
		_, most := idempotence(s.Value())
		s.AddIdempotent(producer, iid, id, most)
	case other != id:
		return errRecordOther
	}
	c.Out.OK()
	return nil
}
