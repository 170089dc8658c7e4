package commands

import "slices"

// The flags and categories of a command in COMMAND's reply and in the ACL, derived from Spec.Flags
// and Spec.Group.

// flagWords are the flags that have a name in Redis, in Redis's order.
var flagWords = []struct {
	flag Flags
	word string
}{
	{Write, "write"},
	{ReadOnly, "readonly"},
	{DenyOOM, "denyoom"},
	{Admin, "admin"},
	{PubSubFlag, "pubsub"},
	{NoScript, "noscript"},
	{Blocking, "blocking"},
	{Loading, "loading"},
	{Stale, "stale"},
	{SkipMonitor, "skip_monitor"},
	{SkipSlowlog, "skip_slowlog"},
	{Asking, "asking"},
	{Fast, "fast"},
	{NoAuth, "no_auth"},
	{NoAsyncLoading, "no_async_loading"},
	{NoMandatoryKeys, "no_mandatory_keys"},
	{NoMulti, "no_multi"},
	{AllowBusy, "allow_busy"},
}

func (s *Spec) flagNames() []string {
	var words []string
	for _, f := range flagWords {
		if s.Is(f.flag) {
			words = append(words, f.word)
		}
	}
	if slices.ContainsFunc(s.Keys, func(ks KeySpec) bool { return ks.Num || ks.Find != nil }) {
		words = append(words, "movablekeys")
	}
	return words
}

// groupCategories contains the ACL category for each group of commands.
var groupCategories = map[Group]string{
	Generic: "@keyspace", StringGroup: "@string", Bitmap: "@bitmap", Geo: "@geo",
	HyperLogLog: "@hyperloglog",
	ListGroup:   "@list", HashGroup: "@hash", SetGroup: "@set",
	SortedSet: "@sortedset", StreamGroup: "@stream", PubSub: "@pubsub", Connection: "@connection",
	Transactions: "@transaction", Scripting: "@scripting", KeypGroup: "@keyp",
}

// categories returns the ACL categories, in Redis's order. A command of the server group that works
// on keys (FLUSHALL, DBSIZE) belongs to @keyspace. A command of the generic group that works on no
// keys (WAIT) does not. A container is not in the category of its group; its subcommands are.
// Declared Categories replace the category of the group.
func (s *Spec) categories() []string {
	list := slices.Clone(s.Categories)
	add := func(on bool, word string) {
		if on {
			list = append(list, word)
		}
	}
	data := s.Is(Write) || s.Is(ReadOnly)
	switch group := groupCategories[s.Group]; {
	case s.Categories != nil, s.Run == nil, s.Group == Generic && !data && s.parent == nil:
	case s.Group == ServerGroup && data && s.parent == nil:
		add(true, "@keyspace")
	default:
		add(group != "", group)
	}
	add(s.Is(ReadOnly) && s.Group != Scripting, "@read")
	add(s.Is(Write), "@write")
	add(s.Is(Admin), "@admin")
	add(s.Is(Fast), "@fast")
	add(!s.Is(Fast), "@slow")
	add(s.Is(Blocking), "@blocking")
	add(s.Is(Admin) || s.Is(Dangerous), "@dangerous")
	slices.SortFunc(list, func(a, b string) int {
		return slices.Index(aclCategories, a[1:]) - slices.Index(aclCategories, b[1:])
	})
	return list
}

// keyFlagWords are the key flags in Redis's order.
var keyFlagWords = []struct {
	flag KeyFlags
	word string
}{
	{RO, "RO"}, {RW, "RW"}, {OW, "OW"}, {RM, "RM"},
	{Access, "access"}, {Update, "update"}, {Insert, "insert"}, {Delete, "delete"},
	{NotKey, "not_key"}, {Incomplete, "incomplete"}, {VariableFlags, "variable_flags"},
}

func (f KeyFlags) names() []string {
	var words []string
	for _, k := range keyFlagWords {
		if f&k.flag != 0 {
			words = append(words, k.word)
		}
	}
	return words
}
