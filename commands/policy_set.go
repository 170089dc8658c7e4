package commands

import (
	"cmp"
	"slices"

	"keyp/ttl"
)

// policySet are all policies. It does not change.
type policySet struct {
	byDB  map[int][]*policy // of each database, in the order in which they go before each other
	count int
}

// named returns the policy of a name, nil if there is none.
func (s *policySet) named(name []byte) *policy {
	for _, p := range s.list() {
		if p.Name == string(name) {
			return p
		}
	}
	return nil
}

// list returns all policies, by database.
func (s *policySet) list() []*policy {
	var all []*policy
	for _, db := range s.databases() {
		all = append(all, s.byDB[db]...)
	}
	return all
}

func (s *policySet) databases() []int {
	dbs := make([]int, 0, len(s.byDB))
	for db := range s.byDB {
		dbs = append(dbs, db)
	}
	slices.Sort(dbs)
	return dbs
}

// newPolicySet orders policies: the one with the most specific pattern goes before others, then the
// one with the lower name.
func newPolicySet(all []*policy) *policySet {
	s := &policySet{byDB: map[int][]*policy{}, count: len(all)}
	for _, p := range all {
		s.byDB[p.db] = append(s.byDB[p.db], p)
	}
	for _, of := range s.byDB {
		slices.SortFunc(of, func(a, b *policy) int {
			return cmp.Or(cmp.Compare(b.literals, a.literals), cmp.Compare(a.Name, b.Name))
		})
	}
	return s
}

// with returns the set with a policy in place of the one of its name.
func (s *policySet) with(p *policy) *policySet {
	return newPolicySet(append(slices.DeleteFunc(s.list(), func(o *policy) bool { return o.Name == p.Name }), p))
}

func (s *policySet) without(p *policy) *policySet {
	return newPolicySet(slices.DeleteFunc(s.list(), func(o *policy) bool { return o == p }))
}

// find returns the policy of a key, nil if it is under none. Any goroutine may call it.
func (s *policySet) find(db int, name []byte) *ttl.Policy {
	for _, p := range s.byDB[db] {
		if globMatch(p.pattern, name) {
			return &p.Policy
		}
	}
	return nil
}
