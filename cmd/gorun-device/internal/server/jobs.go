package server

import "sync"

// jobs are what a worker is asked to do, in order. There may be any number: nobody who asks is held up by a kernel that never ends.
type jobs struct {
	mu   sync.Mutex
	some sync.Cond
	list []func()
}

func (j *jobs) add(job func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = append(j.list, job)
	j.some.L = &j.mu
	j.some.Signal()
}

// any reports whether there is one.
func (j *jobs) any() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.list) > 0
}

// next takes the first one, or returns nil if there is none and it is not to wait.
func (j *jobs) next(wait bool) func() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.list) == 0 {
		if !wait {
			return nil
		}
		j.some.L = &j.mu
		j.some.Wait()
	}
	job := j.list[0]
	j.list = j.list[1:]
	return job
}
