package agent

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun-mpi/gorun/internal/protocol/wire"
)

// Whatever an agent was about to open when it ran out of descriptors, the error
// says what to do; others stay as they are.
func TestWithRemedy(t *testing.T) {
	withRemedy := new(agent).withRemedy
	for _, err := range []error{syscall.EMFILE, fmt.Errorf("./solver: %w", syscall.EMFILE)} {
		if got := withRemedy(err); !errors.Is(got, syscall.EMFILE) || !strings.Contains(got.Error(), "ulimit -n") || !strings.Contains(got.Error(), wire.MoreAgents) {
			t.Errorf("%v has become %v", err, got)
		}
	}
	if got := withRemedy(syscall.ENOEXEC); got != syscall.ENOEXEC {
		t.Error(got)
	}
}
