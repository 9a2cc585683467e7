package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestBudgetsSumToTheWhole(t *testing.T) {
	sum := time.Duration(0)
	for _, p := range parts {
		sum += p.budget
	}
	if sum != most {
		t.Errorf("the budgets sum to %v", sum)
	}
}

// A slower machine is told which part takes long; only the whole can take too long.
func TestJudge(t *testing.T) {
	p := part{budget: time.Minute}
	for _, x := range []struct {
		err       error
		took, all time.Duration
		ci, good  bool
		result    string
	}{
		{nil, time.Second, time.Second, true, true, "ok"},
		{nil, 2 * time.Minute, 2 * time.Minute, true, true, "ok, but over its budget"},
		{nil, 2 * time.Minute, 2 * time.Minute, false, true, "ok"},
		{nil, time.Second, most + 1, true, false, "FAILED: the run takes more than 20m"},
		{nil, time.Second, most + 1, false, true, "ok"},
		{errors.New("broken"), time.Second, time.Second, true, false, "FAILED: broken"},
	} {
		result, good := p.judge(x.err, x.took, x.all, x.ci)
		if good != x.good || !strings.HasPrefix(result, x.result) || x.result == "ok" && result != "ok" {
			t.Errorf("%+v: %q, %v", x, result, good)
		}
	}
}
