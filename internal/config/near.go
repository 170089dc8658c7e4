package config

import (
	"os"
	"slices"
	"strings"
)

// Suggestion asks whether the nearest of these words was meant, for the end of an error; empty:
// none is near.
func Suggestion(word string, of ...string) string { return suggestion(word, of) }

// suggestion asks whether the nearest of these names was meant; empty: none is near.
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

// distance is how many letters must be put in, taken out, changed, or changed for their neighbour,
// to make one word of the other.
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

// optionNames are the names of all options.
func optionNames() (names []string) {
	for _, o := range slices.Concat(options, compat) {
		names = append(names, o.name)
	}
	return names
}

// secretNames are the names of those of the options whose values are passwords.
func secretNames(of []option) (names []string) {
	for _, o := range of {
		if o.secret {
			names = append(names, o.name)
		}
	}
	return names
}

// unknownWord says that an argument is neither a subcommand nor a configuration file.
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

// nearCommand reports whether an argument is nearly a subcommand, and no configuration file.
func nearCommand(word string) bool {
	if strings.HasPrefix(word, "-") || suggestion(word, subcommandNames()) == "" {
		return false
	}
	_, err := os.Stat(word)
	return err != nil
}
