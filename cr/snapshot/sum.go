package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// A schema begins with two lines that are no matter of TOML's:
//
//	# Snapshot of a gorun job. `gorun restart` takes this file.
//	sum = "<SHA-256 of all of the file but this line>"
//
// The schema has the digest of each image, which covers all of the image. So the sum stands for all bytes of the
// snapshot.
const (
	title    = "# Snapshot of a gorun job. `gorun restart` takes this file.\n"
	sumBegin = "sum = \""
	sumEnd   = "\"\n"
)

func sumOf(body []byte) string {
	h := sha256.New()
	h.Write([]byte(title))
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// addSum makes the file of a schema whose TOML is body.
func addSum(body []byte) []byte {
	return append([]byte(title+sumBegin+sumOf(body)+sumEnd), body...)
}

// takeSum checks the sum of a schema's file, and returns the rest of it. Older ones have none, and are returned whole.
func takeSum(p []byte) (body []byte, summed bool, err error) {
	body, ok := bytes.CutPrefix(p, []byte(title+sumBegin))
	if !ok {
		return p, false, nil
	}
	n := hex.EncodedLen(sha256.Size)
	if len(body) < n+len(sumEnd) || string(body[n:n+len(sumEnd)]) != sumEnd {
		return nil, true, fmt.Errorf("%w: its sum is no SHA-256", ErrAltered)
	}
	sum, body := string(body[:n]), body[n+len(sumEnd):]
	if sum != sumOf(body) {
		return nil, true, fmt.Errorf("%w: its sum does not fit", ErrAltered)
	}
	return body, true, nil
}
