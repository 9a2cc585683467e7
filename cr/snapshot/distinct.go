package snapshot

import (
	"errors"
	"slices"
	"strings"
)

// Distinct joins errors, and tells each once: what several snapshots say of an image that they build on, and what one of the errors
// says within more words, is left out.
func Distinct(errs ...error) error {
	all := parts(errors.Join(errs...))
	texts := make([]string, len(all))
	for i, err := range all {
		texts[i] = err.Error()
	}
	var kept []error
	for i, err := range all {
		told := slices.Contains(texts[:i], texts[i]) ||
			slices.ContainsFunc(texts, func(other string) bool { return len(other) > len(texts[i]) && strings.Contains(other, texts[i]) })
		if !told {
			kept = append(kept, err)
		}
	}
	return errors.Join(kept...)
}

// parts takes apart what errors.Join has joined.
func parts(err error) (all []error) {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(joined.Unwrap()...).Error() != err.Error() {
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		all = append(all, parts(e)...)
	}
	return all
}
