package proc

import (
	"errors"
	"fmt"
	"strings"
)

// ErrQuote is returned for a command line whose quote or backslash has no end.
var ErrQuote = errors.New("unfinished quote")

// Split cuts a command line into words as a shell does: blanks separate, single
// quotes keep everything, double quotes keep all but a backslash before `"`, `\`,
// `$` and a backquote, a backslash elsewhere keeps the next character, and a pair
// of quotes is a word even when it is empty. Nothing is expanded: no variables,
// no globs, no operators; for those, name a shell in the command line.
func Split(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inWord := false
	quote := rune(0)
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			if quote == '"' && !strings.ContainsRune("\"\\$`", r) {
				word.WriteByte('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inWord = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, inWord = r, true
		case strings.ContainsRune(" \t\n", r):
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 || escaped {
		return nil, fmt.Errorf("%w in %q", ErrQuote, line)
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}

// Fill replaces {port} and {dir} in every word, so that a directory with blanks
// in its name stays one word.
func Fill(words []string, port, dir string) []string {
	replacer := strings.NewReplacer("{port}", port, "{dir}", dir)
	filled := make([]string, len(words))
	for i, word := range words {
		filled[i] = replacer.Replace(word)
	}
	return filled
}
