// Package nesting looks how deeply documents are nested before a recursive parser gets them: that could run out of
// stack, which a program cannot handle.
package nesting

import "bytes"

// Shallow reports whether a document in TOML is nested no deeper than gorun's own. It looks at brackets, braces and
// dots outside of strings and comments.
func Shallow(p []byte) bool {
	const most = 16
	depth, dots := 0, 0
	for i := 0; i < len(p); i++ {
		switch c := p[i]; c {
		case '[', '{':
			depth++
		case ']', '}':
			depth = max(0, depth-1)
		case '.':
			dots++
		case '\n':
			dots = 0
		case '#':
			for i+1 < len(p) && p[i+1] != '\n' {
				i++
			}
		case '"', '\'':
			i = skipString(p, i)
		}
		if depth > most || dots > 10*most {
			return false
		}
	}
	return true
}

// skipString returns the index of the last byte of the string that begins at i.
func skipString(p []byte, i int) int {
	quote := p[i]
	long := bytes.HasPrefix(p[i:], []byte{quote, quote, quote})
	if long {
		i += 2
	}
	for i++; i < len(p); i++ {
		switch {
		case p[i] == '\\' && quote == '"':
			i++
		case p[i] == '\n' && !long:
			return i
		case p[i] == quote && !long:
			return i
		case p[i] == quote && bytes.HasPrefix(p[i:], []byte{quote, quote, quote}):
			return i + 2
		}
	}
	return i
}
