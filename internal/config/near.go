package config

import (
	"os"
	"slices"
	"strings"
)

// Suggestion returns the end of an error text: a question whether the nearest of these words was
// meant. It returns "" if no word is near.
func Suggestion(word string, of ...string) string { return suggestion(word, of) }

// suggestion is Suggestion with a slice of names.
func suggestion(word string, names []string) string {
	const near = 2 // and no more than half of the word
	nearest := slices.MinFunc(names, func(a, b string) int {
		return distance(word, a) - distance(word, b)
	})
	if d := distance(word, nearest); d > near || 2*d > len(word) {
		return ""
	}
	return "; did you mean " + nearest + "?"
}

// distance returns how many letters must be inserted, deleted, replaced, or swapped with their
// neighbour, to turn one word into the other.
func distance(a, b string) int {
	var before, last []int // by how much of b, the rows of what a has had two letters ago, and one
	for i := range len(a) + 1 {
		row := make([]int, len(b)+1)
		for j := range row {
			switch {
			case i == 0 || j == 0:
				row[j] = i + j
				continue
			case a[i-1] == b[j-1]:
				row[j] = last[j-1]
			default:
				row[j] = 1 + min(last[j-1], last[j], row[j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

// optionNames returns the names of all options.
func optionNames() (names []string) {
	for _, o := range slices.Concat(options, compat) {
		names = append(names, o.name)
	}
	return names
}

// secretNames returns the names of the given options whose values are passwords.
func secretNames(of []option) (names []string) {
	for _, o := range of {
		if o.secret {
			names = append(names, o.name)
		}
	}
	return names
}

// unknownWord returns the error text for an argument that is neither a subcommand nor a
// configuration file.
func unknownWord(word string) string {
	name, _, given := strings.Cut(word, "=")
	if given && slices.Contains(optionNames(), name) {
		return "there is no command " + withoutPassword(strings.TrimSpace(name)) +
			"=…; did you mean --" + name + "=…?"
	}
	return "there is no command " + withoutPassword(strings.TrimSpace(word)) +
		", and no configuration file of that name" + suggestion(word, subcommandNames()) +
		" (see keyp help)"
}

// nearCommand reports whether an argument is similar to a subcommand, and not the name of a file.
func nearCommand(word string) bool {
	if strings.HasPrefix(word, "-") || suggestion(word, subcommandNames()) == "" {
		return false
	}
	_, err := os.Stat(word)
	return err != nil
}
