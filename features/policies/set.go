package policies

import (
	"cmp"
	"slices"

	"keyp/internal/glob"
)

// Set contains all deadline policies (KEYP.POLICY) of a store. It never changes: a changed policy
// makes a new Set.
type Set struct {
	byDB  map[int][]*Policy
	count int
}

// Named returns the policy with a name, or nil if there is none.
func (s *Set) Named(name []byte) *Policy {
	for _, p := range s.List() {
		if p.Name == string(name) {
			return p
		}
	}
	return nil
}

// Len returns the number of policies.
func (s *Set) Len() int { return s.count }

// Of returns the policies of a database in the order of their precedence.
func (s *Set) Of(db int) []*Policy { return s.byDB[db] }

// List returns all policies, database by database, each in the order of Of.
func (s *Set) List() []*Policy {
	var all []*Policy
	for _, db := range s.databases() {
		all = append(all, s.byDB[db]...)
	}
	return all
}

func (s *Set) databases() []int {
	dbs := make([]int, 0, len(s.byDB))
	for db := range s.byDB {
		dbs = append(dbs, db)
	}
	slices.Sort(dbs)
	return dbs
}

// NewSet makes a set of policies. In each database the policy with the most specific pattern comes
// first. If two patterns are equally specific, the policy with the lower name comes first.
func NewSet(all []*Policy) *Set {
	s := &Set{byDB: map[int][]*Policy{}, count: len(all)}
	for _, p := range all {
		p.literals = literals(p.Pattern)
		s.byDB[p.DB] = append(s.byDB[p.DB], p)
	}
	for _, of := range s.byDB {
		slices.SortFunc(of, func(a, b *Policy) int {
			return cmp.Or(cmp.Compare(b.literals, a.literals), cmp.Compare(a.Name, b.Name))
		})
	}
	return s
}

// With returns the set with p in place of the policy of its name.
func (s *Set) With(p *Policy) *Set {
	others := slices.DeleteFunc(s.List(), func(o *Policy) bool { return o.Name == p.Name })
	return NewSet(append(others, p))
}

// Without returns the set without p.
func (s *Set) Without(p *Policy) *Set {
	return NewSet(slices.DeleteFunc(s.List(), func(o *Policy) bool { return o == p }))
}

// Find returns the policy that applies to a key, or nil if there is none. Any goroutine may call
// it.
func (s *Set) Find(db int, name []byte) *Policy {
	for _, p := range s.byDB[db] {
		if glob.Match(p.Pattern, name) {
			return p
		}
	}
	return nil
}

// literals counts the bytes of a pattern that stand for themselves.
func literals(pattern []byte) (n int) {
	for i := 0; i < len(pattern); i++ {
		switch pattern[i] {
		case '*', '?':
		case '[':
			for i++; i < len(pattern) && pattern[i] != ']'; i++ {
				if pattern[i] == '\\' {
					i++
				}
			}
		case '\\':
			i++
			n++
		default:
			n++
		}
	}
	return n
}
