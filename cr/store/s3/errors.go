package s3

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"

	"github.com/minio/minio-go/v7"

	"github.com/gorun-mpi/gorun/cr/store"
)

// Error says what went wrong with an object.
type Error struct {
	Object   string // s3://BUCKET/KEY
	Endpoint string
	Err      error
	Remedy   string // or ""

	also error // what it is besides, for errors.Is
}

// Error names the object and the remedy.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s at %s: %v", e.Object, e.Endpoint, e.Err)
	if e.Remedy != "" {
		text += " (" + e.Remedy + ")"
	}
	return text
}

// Unwrap gives the reason, and what it means to a store.
func (e *Error) Unwrap() []error {
	if e.also == nil {
		return []error{e.Err}
	}
	return []error{e.Err, e.also}
}

// fail describes an error of a request for a key.
func (s *Store) fail(key string, err error) error {
	if err == nil {
		return nil
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return err
	}
	e := &Error{Object: scheme + s.cfg.Bucket + "/" + key, Endpoint: s.cfg.Endpoint, Err: err}
	r := minio.ToErrorResponse(err)
	var ue *url.Error
	var ne net.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case r.Code == minio.NoSuchBucket:
		e.Remedy = "make the bucket, or name another"
	case r.Code == minio.NoSuchKey, r.StatusCode == http.StatusNotFound:
		e.also = fs.ErrNotExist
	case r.Code == minio.PreconditionFailed, r.StatusCode == http.StatusPreconditionFailed, r.Code == "ConditionalRequestConflict":
		e.also = fs.ErrExist
	case r.StatusCode == http.StatusForbidden, r.StatusCode == http.StatusUnauthorized, r.Code == "ExpiredToken":
		e.also = fs.ErrPermission
		e.Remedy = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws/credentials, must be of somebody who may read, write, list and delete there"
	case r.StatusCode == http.StatusNotImplemented:
		e.Remedy = "the server does not know conditional writes, which gorun needs"
	case errors.As(err, &ue), errors.As(err, &ne):
		e.also = store.ErrUnreachable
		e.Remedy = "does the endpoint's address hold, and is the server up?"
	}
	return e
}
