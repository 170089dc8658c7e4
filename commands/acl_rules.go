package commands

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// apply applies a rule of ACL SETUSER to new permissions, which the caller has not given to a user
// yet.
func (p *permissions) apply(us *users, rule string) error {
	op := []byte(rule)
	switch {
	case rule == "": // does nothing
	case isWord(op, "ON"):
		p.enabled = true
	case isWord(op, "OFF"):
		p.enabled = false
	case isWord(op, "SKIP-SANITIZE-PAYLOAD"):
		p.skipSanitize = true
	case isWord(op, "SANITIZE-PAYLOAD"):
		p.skipSanitize = false
	case isWord(op, "NOPASS"):
		p.noPass, p.passwords = true, nil
	case isWord(op, "RESETPASS"):
		p.noPass, p.passwords = false, nil
	case strings.IndexByte("><#!", rule[0]) >= 0:
		return p.applyPassword(rule)
	case rule[0] == '(' && strings.HasSuffix(rule, ")"):
		s, err := parseSelector(us.table, rule, us.allTopics.Load())
		if err != nil {
			return err
		}
		p.selectors = append(p.selectors, s)
	case isWord(op, "CLEARSELECTORS"):
		p.selectors = p.selectors[:1]
	case isWord(op, "RESET"):
		*p = *us.noPermissions()
	default:
		return p.selectors[0].apply(us.table, rule)
	}
	return nil
}

// applyPassword adds a password (>) or hash (#), or takes one away (<, !).
func (p *permissions) applyPassword(rule string) error {
	hash := sha256.Sum256([]byte(rule[1:]))
	if rule[0] == '#' || rule[0] == '!' {
		var ok bool
		if hash, ok = parseHash(rule[1:]); !ok {
			return errRuleHash
		}
	}
	at := slices.Index(p.passwords, hash)
	switch rule[0] {
	case '>', '#':
		p.noPass = false
		if at < 0 {
			p.passwords = append(p.passwords, hash)
		}
	default:
		if at < 0 {
			return errRuleNoPass
		}
		p.passwords = slices.Delete(p.passwords, at, at+1)
	}
	return nil
}

func parseHash(text string) (hash [sha256.Size]byte, ok bool) {
	if len(text) != hex.EncodedLen(len(hash)) || text != strings.ToLower(text) {
		return hash, false
	}
	_, err := hex.Decode(hash[:], []byte(text))
	return hash, err == nil
}

// shown returns a rule as an error may quote it: without texts that may be passwords.
func shown(rule string) string {
	words := strings.Split(rule, " ")
	for i, word := range words {
		bare := strings.TrimLeft(word, "(")
		if bare != "" && strings.IndexByte("><#!", bare[0]) >= 0 {
			words[i] = word[:len(word)-len(bare)+1] + "(redacted)"
		}
	}
	return strings.Join(words, " ")
}
