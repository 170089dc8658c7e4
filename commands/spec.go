package commands

// Spec declares a command. Everything about the command is derived from its Spec.
type Spec struct {
	Name       string // upper case; a subcommand's own name without the container's
	Group      Group
	Since      string // Redis version; of Keyp's own commands Keyp's
	Summary    string
	Complexity string
	History    [][2]string // version, change
	Arity      int         // counting the name(s); negative: at least that many
	Flags      Flags
	Keys       []KeySpec // where the keys are; nil: none
	Args       []Arg
	Tips       []string // further hints in COMMAND's reply
	// Scope says which data a call may touch, which decides how it runs. A declaration with Keys
	// need not set KeysOnly.
	Scope Scope
	// Escalate returns the scope of calls whose arguments show that they touch more data than Scope
	// says. It is called before anything is locked. It is nil if there are no such calls.
	Escalate func(c *Ctx) Scope
	// Offload reports whether a call reads so much that it should be a task of scope Pinned.
	// Such a call changes nothing, or one key by Replace or Copy at its end. Offload is called
	// when the keys are locked and in memory. nil means never.
	Offload func(c *Ctx) bool
	// Categories are ACL categories of the command and its subcommands that no flag implies. If it
	// is nil, the group's category applies.
	Categories []string
	// Channels says which arguments are channels.
	Channels channelArgs
	Run      func(*Ctx) error
	Sub      []Spec // subcommands of a container, which then has no Run

	parent *Spec
	full   string     // "client|list", lower case, as COMMAND and errors name it
	id     int        // its place in Table.specs
	named  []*KeySpec // the keys that arguments name, each once
}

// Group is the family in COMMAND DOCS.
type Group string

// The groups.
const (
	Generic      Group = "generic"
	StringGroup  Group = "string"
	Bitmap       Group = "bitmap"
	Geo          Group = "geo"
	HyperLogLog  Group = "hyperloglog"
	Connection   Group = "connection"
	ServerGroup  Group = "server"
	ListGroup    Group = "list"
	HashGroup    Group = "hash"
	SetGroup     Group = "set"
	SortedSet    Group = "sorted-set"
	StreamGroup  Group = "stream"
	Transactions Group = "transactions"
	PubSub       Group = "pubsub"
	Scripting    Group = "scripting"
	Cluster      Group = "cluster"
	KeypGroup    Group = "keyp" // Keyp's own, which Redis does not have
)

// Flags say how a command is run, and are part of COMMAND's reply.
type Flags uint32

// The flags; those without a Redis name are ours.
const (
	Write Flags = 1 << iota
	ReadOnly
	DenyOOM // may grow: refused when the disk is full
	Admin
	PubSubFlag
	NoScript
	Blocking
	Loading
	Stale
	SkipMonitor
	SkipSlowlog
	Asking
	Fast
	NoAuth
	MayReplicate // has no Write flag, but may change keys or publish: CLIENT PAUSE WRITE delays it
	NoAsyncLoading
	AllowBusy
	NoMulti
	NoMandatoryKeys
	Dangerous // ACL category that no other flag implies

	Unqueued    // runs at once between MULTI and EXEC
	DuringPause // runs although CLIENT PAUSE delays everything else
	pauses      // begins CLIENT PAUSE, when no task runs that may write
	unpauses    // ends it, and comes behind those that wait to begin it
	execs       // runs what MULTI has queued
	guards      // EXEC runs nothing that is behind it, unless it succeeds

	InSubscription // a RESP2 client that has subscriptions may use it
	Pushes         // its reply consists of push messages, which CLIENT REPLY does not suppress
	elsewhere      // waits for another server
	keeps          // writes, and need not free anything
	restates       // its record may be as long as the value that it changes
	// The command waits while it is not known who leads the group, because clients connect to the
	// server that its reply names.
	namesLeader
)

// Tips describe the reply, and how cluster clients send a command to several servers and merge the
// replies.
const (
	tipRandom       = "nondeterministic_output"
	tipRandomOrder  = "nondeterministic_output_order"
	tipAllNodes     = "request_policy:all_nodes"
	tipAllShards    = "request_policy:all_shards"
	tipMultiShard   = "request_policy:multi_shard"
	tipSpecial      = "request_policy:special"
	tipAllSucceeded = "response_policy:all_succeeded"
	tipSum          = "response_policy:agg_sum"
	tipMin          = "response_policy:agg_min"
	tipSpecialReply = "response_policy:special"
)

// KeySpec says where keys are among the arguments, as in COMMAND's key specifications: from Begin
// (1 is the first argument), to Last (negative: counted from the end, -1 the last argument), every
// Step.
type KeySpec struct {
	Flags KeyFlags
	Begin int
	Last  int // relative to Begin when positive or zero; -1: to the end, -2: to the last but one
	Step  int // 0 counts as 1
	// Num means that argument Begin is the number of keys, which follow it (ZUNION), every
	// Step. The handler reports an argument that is not a number.
	Num bool
	// DB returns the database of the keys from the command's arguments, if it may differ from
	// the client's (COPY … DB n, MOVE). ok is false if the arguments name no valid database;
	// the handler reports that.
	DB func(args [][]byte, current int) (db int, ok bool)
	// Find returns the first and last argument that is a key, if their position varies (SORT …
	// STORE). last is before first if there is none. In COMMAND's reply the position is unknown,
	// unless Word or Begin is set. Begin is then the place of the key, if there is one.
	Find func(args [][]byte) (first, last int)
	// Word is for COMMAND alone: the key that Find returns comes after this word, at Begin or
	// later.
	Word string
	// Limit is for COMMAND alone. If the arguments to the end (Last) are divided into Limit
	// equal parts, only the first part is keys (XREAD).
	Limit int
	// Vary returns the flags if they depend on the arguments (SET … GET); Flags are then the flags
	// of the worst case.
	Vary func(args [][]byte) KeyFlags
}

// KeyFlags are the key specification flags of COMMAND INFO.
type KeyFlags uint16

// The key flags.
const (
	RO KeyFlags = 1 << iota
	RW
	OW
	RM
	Access
	Update
	Insert
	Delete
	NotKey
	Incomplete
	VariableFlags
)

// Key declares one key at argument n.
func Key(n int, flags KeyFlags) KeySpec { return KeySpec{Flags: flags, Begin: n} }

// NumKeys declares the keys after argument n, which is their number.
func NumKeys(n int, flags KeyFlags) KeySpec { return KeySpec{Flags: flags, Begin: n, Num: true} }

// KeysFrom declares keys from argument n to the end, every step.
func KeysFrom(n, step int, flags KeyFlags) KeySpec {
	return KeySpec{Flags: flags, Begin: n, Last: -1, Step: step}
}

// ArgType is an argument's type in COMMAND DOCS.
type ArgType string

// The argument types.
const (
	ArgString  ArgType = "string"
	ArgInteger ArgType = "integer"
	ArgDouble  ArgType = "double"
	ArgKey     ArgType = "key"
	ArgPattern ArgType = "pattern"
	ArgUnix    ArgType = "unix-time"
	ArgToken   ArgType = "pure-token"
	ArgOneOf   ArgType = "oneof"
	ArgBlock   ArgType = "block"
)

// Arg is one argument of a command's grammar.
type Arg struct {
	Name     string
	Type     ArgType
	Token    string // the word in front of it, or the word itself for ArgToken
	Optional bool
	Multiple bool
	Repeats  bool // with Multiple: the word in front of it is repeated too
	Since    string
	// KeySpec is the number, from 1, of the key specification to which an argument belongs. 0:
	// a key belongs to the next specification, and any other argument to none.
	KeySpec int
	Args    []Arg // of ArgOneOf and ArgBlock
}
