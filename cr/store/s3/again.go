package s3

import (
	"context"
	"crypto/x509"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
)

// Who tries again: the client itself, at a request whose answer says so or does not come, and again, at answers that the client takes
// for final. The client does not send a body again: the connection of a request that has failed may still read from it.

// again tries again where a request has arrived damaged or its answer broke off. All other failures that may pass are
// tried again by the client.
func (s *Store) again(ctx context.Context, send func() error) error {
	for try := 1; ; try++ {
		err := send()
		if !passing(err) || try >= s.cfg.tries || wait(ctx, try) != nil {
			return err
		}
	}
}

// upload sends p, again at every failure that may pass. p is the caller's when it returns.
func (s *Store) upload(ctx context.Context, p []byte, send func(body io.Reader) error) error {
	for try := 1; ; try++ {
		b := &body{rest: p}
		err := send(b)
		b.end()
		if !passing(err) && !unanswered(ctx, err) || try >= s.cfg.tries || wait(ctx, try) != nil {
			return err
		}
	}
}

// body is what one request sends. It is not a Seeker, so the client leaves resending to this
// package.
type body struct {
	mu   sync.Mutex
	rest []byte
}

func (b *body) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.rest) == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	n = copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// end ends the body. A connection that still reads it gets nothing more.
func (b *body) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rest = nil
}

// unanswered reports whether the server is busy or has failed, or there was no answer.
func unanswered(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false
	}
	var answer minio.ErrorResponse
	if errors.As(err, &answer) {
		return slices.Contains(busyCodes, answer.Code) || slices.Contains(busyStatus, answer.StatusCode)
	}
	var none *url.Error
	var stranger x509.UnknownAuthorityError
	return errors.As(err, &none) && !errors.As(err, &stranger)
}

var busyCodes = []string{"RequestError", "RequestTimeout", "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestThrottled",
	"InternalError", "SlowDown", "SlowDownWrite", "SlowDownRead"}

var busyStatus = []int{http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusBadGateway,
	http.StatusServiceUnavailable, http.StatusGatewayTimeout}

func passing(err error) bool {
	var syntax *xml.SyntaxError
	switch minio.ToErrorResponse(err).Code {
	case "BadDigest", "XAmzContentSHA256Mismatch":
		return true
	}
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, errBroken) || errors.As(err, &syntax)
}

// wait waits after a try: longer and longer, and not as long as others wait.
func wait(ctx context.Context, try int) error {
	most := min(50*time.Millisecond<<try, time.Second)
	select {
	case <-time.After(most/2 + rand.N(most/2)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
