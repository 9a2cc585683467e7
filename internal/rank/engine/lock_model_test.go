package engine

import (
	"fmt"
	"testing"
)

// A model of the gateLock, in which what takes nanoseconds can take for ever: a plain
// store stays with its processor until it is flushed, at any time, or by an atomic
// operation of the same thread, or by a barrier. All orders in which the steps of a
// few threads can happen are gone through. Each step is one access to what threads
// share; looks that change nothing, such as spinning, are left out.

const modelThreads = 3

type modelState struct {
	held, gate    bool // the lock's word
	waiters       int8
	loose         bool
	retry, left   bool // tokens
	closerInside  bool
	callersInside int8
	threads       [modelThreads]modelThread
}

type modelThread struct {
	at      modelStep
	rounds  int8 // still to do, after this one
	stored  bool // its store that lets go is on its way
	settled int8 // threads that have had the barrier it asked for
	closer  bool
	looked  bool // announced, in lockSlow
}

// modelStep is what a thread does next.
type modelStep int8

const (
	mLock    modelStep = iota // lock: the fast way
	mCount                    // lockSlow: it is counted
	mLook                     // looks, and takes the lock if it is free
	mTighten                  // tighten: takes loose away
	mSettle                   // a barrier in one other thread
	mPassOn                   // and looks for those who did not wait for that
	mSleep                    // for a token
	mInside
	mUnlock // checks whether it is loose
	mTight
	mStore // letGo: stores
	mSeen  // and looks
	mNotify
	mClose // the closer
	mOpen
	mDone
)

// modelRules are what a mutant leaves out.
type modelRules struct {
	settles    bool // a barrier in all threads
	looksAgain bool // a look after it, before sleep
	passesOn   bool // and one for those who did not wait for it
	flushes    bool // tokens come after the store
}

// next appends the states to which a step of thread i leads, none if it has to wait.
func (r *modelRules) next(s modelState, i int, out []modelState) []modelState {
	t := &s.threads[i]
	switch t.at {
	case mLock, mCount, mTighten, mTight, mClose, mOpen, mInside: // atomic operations
		s.flush(i)
	}
	if t.at == mNotify && r.flushes {
		s.flush(i)
	}
	wanted := s.gate || s.waiters > 0
	switch t.at {
	case mLock:
		if t.at = mCount; !s.held && !wanted {
			s.enter(t)
		}
	case mCount:
		s.waiters++
		t.at = mLook
	case mLook:
		switch {
		case !s.held && (t.closer || !s.gate):
			s.flush(i)
			if s.enter(t); !t.closer {
				s.waiters--
			}
		case t.looked:
			t.at = mSleep
		default:
			t.looked, t.at = true, mTighten
		}
	case mTighten:
		t.at, t.settled = mLook, 0
		if s.loose {
			t.at = mSettle
		}
		if !r.looksAgain {
			t.at = mSleep
		}
		s.loose = false
	case mSettle:
		if r.settles {
			s.flush(int(t.settled))
		}
		if t.settled++; t.settled == modelThreads {
			if t.at = mLook; r.passesOn {
				t.at = mPassOn
			}
		}
	case mPassOn:
		if t.at = mLook; !s.held {
			s.token()
		}
	case mSleep:
		token := &s.retry
		if t.closer {
			token = &s.left
		}
		if !*token {
			return out
		}
		*token, t.at = false, mLook
	case mInside:
		s.callersInside--
		t.at = mUnlock
		out = append(out, s) // and, for the next who looks at how to let go:
		s.loose = true
	case mUnlock:
		if t.at = mTight; s.loose {
			t.at = mStore
		}
	case mTight:
		s.held = false
		s.leave(t, wanted)
	case mStore:
		t.stored, t.at = true, mSeen
	case mSeen:
		s.leave(t, wanted)
	case mNotify:
		s.token()
		s.leave(t, false)
	case mClose:
		s.gate, t.at = true, mTighten
		t.looked = true
	case mOpen:
		s.held, s.gate, s.closerInside = false, false, false
		s.leave(t, s.waiters > 0)
	case mDone:
		return out
	}
	return append(out, s)
}

// flush makes the store of a thread seen.
func (s *modelState) flush(i int) {
	if t := &s.threads[i]; t.stored {
		t.stored, s.held = false, false
	}
}

func (s *modelState) enter(t *modelThread) {
	s.held, t.looked = true, false
	if t.at = mInside; t.closer {
		s.closerInside, t.at = true, mOpen
		return
	}
	s.callersInside++
}

// leave is what comes after letting go.
func (s *modelState) leave(t *modelThread, notify bool) {
	switch {
	case notify:
		t.at = mNotify
	case t.rounds == 0:
		t.at = mDone
	case t.closer:
		t.rounds, t.at = t.rounds-1, mClose
	default:
		t.rounds, t.at = t.rounds-1, mLock
	}
}

// token is notify.
func (s *modelState) token() {
	if s.gate {
		s.left = true
	} else if s.waiters > 0 {
		s.retry = true
	}
}

// explore goes through all states and returns what is wrong with one of them.
func (r *modelRules) explore(first modelState) (states int, wrong error) {
	seen := map[modelState]bool{first: true}
	for todo := []modelState{first}; len(todo) > 0; {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if s.callersInside > 1 || s.callersInside > 0 && s.closerInside {
			return len(seen), fmt.Errorf("inside together: %+v", s)
		}
		var next []modelState
		done := true
		for i := range s.threads {
			next = r.next(s, i, next)
			done = done && s.threads[i].at == mDone
			if s.threads[i].stored {
				f := s
				f.flush(i)
				next = append(next, f)
			}
		}
		if len(next) == 0 && (!done || s.held || s.waiters != 0) {
			return len(seen), fmt.Errorf("asleep for ever: %+v", s)
		}
		for _, n := range next {
			if !seen[n] {
				seen[n] = true
				todo = append(todo, n)
			}
		}
	}
	return len(seen), nil
}

// modelOf is callers, of which one may be a closer, at a lock that is loose or not.
func modelOf(closer, loose bool, rounds int8) modelState {
	s := modelState{loose: loose}
	for i := range s.threads {
		s.threads[i].rounds = rounds - 1
	}
	if closer {
		s.threads[0].closer, s.threads[0].at = true, mClose
	}
	return s
}

// In no order of steps is anybody forgotten asleep, or inside together with another.
// Each rule is needed for that.
func TestLockModel(t *testing.T) {
	for _, x := range []struct {
		name  string
		rules modelRules
		holds bool
	}{
		{"as it is", modelRules{true, true, true, true}, true},
		{"without the barrier", modelRules{false, true, true, true}, false},
		{"without a look after it", modelRules{true, false, true, true}, false},
		{"without a look for others after it", modelRules{true, true, false, true}, false},
		{"tokens that come before the store is seen", modelRules{true, true, true, false}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			var wrong error
			all, rounds := 0, int8(2)
			if testing.Short() {
				rounds = 1
			}
			for _, closer := range []bool{false, true} {
				for _, loose := range []bool{false, true} {
					states, err := x.rules.explore(modelOf(closer, loose, rounds))
					if all += states; err != nil {
						wrong = err
					}
				}
			}
			t.Logf("%d states; %v", all, wrong)
			if (wrong == nil) != x.holds {
				t.Errorf("holds: %v", wrong == nil)
			}
		})
	}
}
