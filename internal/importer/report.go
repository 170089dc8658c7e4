package importer

import "slices"

// Refusal is a reason for which something was not imported.
type Refusal struct {
	Reason string
	Count  int64
	First  []string // the first keys, commands or modules
}

// Refusals are the reasons, and how often there was each.
type Refusals []*Refusal

// Report is what was imported, or would be.
type Report struct {
	Types               map[string]int64 // keys of RDB files, by their type
	Keys, Deadlines     int64
	Expired             int64 // keys whose deadline had passed
	Libraries, Commands int64
	Refused             Refusals
	Torn                int64 // bytes at the end that Redis would cut off
	TornFile            string
	// LeftOut counts keys, and commands about keys, of other databases, or that don't match, and
	// then libraries, too.
	LeftOut int64
	// NotSaid: the server has everything, and cannot say whether it is on disk, since it is older
	// than WAITAOF.
	NotSaid bool
}

// without takes away what a server has refused of it.
func (r *Report) without(refused *Report) {
	r.Refused = append(r.Refused, refused.Refused...)
	r.Keys -= refused.Keys
	r.Deadlines -= refused.Deadlines
	r.Libraries -= refused.Libraries
	r.Commands -= refused.Commands
	for typ, n := range refused.Types {
		if r.Types[typ] -= n; r.Types[typ] == 0 {
			delete(r.Types, typ)
		}
	}
}

// The bounds of what is kept of refusals.
const (
	maxRefusals = 100
	maxNames    = 5
	maxName     = 100
)

// Add counts one of something that is named.
func (r *Refusals) Add(reason, name string) {
	i := slices.IndexFunc(*r, func(one *Refusal) bool { return one.Reason == reason })
	if i < 0 && len(*r) >= maxRefusals {
		i = maxRefusals - 1
		(*r)[i].Reason = "other reasons"
	}
	if i < 0 {
		i = len(*r)
		*r = append(*r, &Refusal{Reason: reason})
	}
	one := (*r)[i]
	name = name[:min(len(name), maxName)]
	if one.Count++; len(one.First) < maxNames && !slices.Contains(one.First, name) {
		one.First = append(one.First, name)
	}
}
