package importer

import "slices"

// Refusal is a reason why something was not imported.
type Refusal struct {
	Reason string
	Count  int64
	First  []string // the first keys, commands or modules
}

// Refusals are the reasons, each with its count.
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
	// LeftOut counts keys, commands about keys, and libraries that were not chosen.
	LeftOut int64
	// NotSaid: the server has everything, but it is too old for WAITAOF. So it is unknown
	// whether the data is on disk.
	NotSaid bool
}

// without subtracts the counts of data that the server has refused, and adds the reasons.
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

// The bounds of the refusals that are kept: reasons, names for each, and bytes of a name.
const (
	maxRefusals = 100
	maxNames    = 5
	maxName     = 100
)

// Add counts a refusal of something with a name. Reasons beyond maxRefusals count as "other
// reasons".
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
