package store

import (
	"fmt"
	"strings"
)

// Bounds on names.
const (
	maxElement = 128
	maxDepth   = 4
)

// CheckSet says what is wrong with the name of a set: one to four elements, joined by slashes. An element has up
// to 128 letters, digits, dots, hyphens and underscores of ASCII, and begins with none of ".-". So no name leads
// out of the folder of a store, whoever has sent it, and none is a hidden file or a flag.
func CheckSet(set string) error {
	depth := 0
	for e := range strings.SplitSeq(set, "/") {
		depth++
		if depth > maxDepth || !isElement(e) {
			return fmt.Errorf("%w: %.200q", ErrName, set)
		}
	}
	return nil
}

// Names of the catalogue's own files. In a folder that all nodes see they lie beside the pieces.
const (
	SchemaFile = "schema.toml"
	LockFile   = "lock"
)

// CheckPiece says what is wrong with the name of a piece: one element, which neither ends as those of unfinished
// ones do nor is the catalogue's.
func CheckPiece(piece string) error {
	if !isElement(piece) || strings.HasSuffix(piece, PartSuffix) || piece == SchemaFile || piece == LockFile {
		return fmt.Errorf("%w: %.200q", ErrName, piece)
	}
	return nil
}

func isElement(e string) bool {
	if e == "" || len(e) > maxElement || e[0] == '.' || e[0] == '-' {
		return false
	}
	for _, c := range []byte(e) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}
