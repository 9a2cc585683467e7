// Package repeat decides how often something short is repeated to be timed.
package repeat

import "time"

// maxCount bounds the repetitions in a batch.
const maxCount = 1 << 24

// Batches measures lead, which does something count times and returns how long that took. It chooses count so
// that the given number of batches take about total. It returns the seconds of one repetition in each batch.
// The calls that find the count also warm up caches, connections and peers. If lead turns out to take twice as
// long, there are fewer batches.
func Batches(total time.Duration, batches int, lead func(count int) (time.Duration, error)) (seconds []float64, count int, err error) {
	batch := total / time.Duration(batches)
	count, took := 1, time.Duration(0)
	for {
		if took, err = shorter(lead, count, batch/4); err != nil {
			return nil, 0, err
		}
		if took >= batch/4 || count >= maxCount {
			break
		}
		count *= 2
	}
	count = max(1, min(maxCount, int(float64(count)*float64(batch)/float64(took))))
	for spent := time.Duration(0); len(seconds) < batches && spent < 2*total; spent += took {
		if took, err = lead(count); err != nil {
			return nil, 0, err
		}
		seconds = append(seconds, took.Seconds()/float64(count))
	}
	return seconds, count, nil
}

// shorter returns what count repetitions take; if that is enough, the shorter of
// two times: the machine may have done something else meanwhile.
func shorter(lead func(count int) (time.Duration, error), count int, enough time.Duration) (time.Duration, error) {
	took, err := lead(count)
	if err != nil || took < enough {
		return took, err
	}
	again, err := lead(count)
	return min(took, again), err
}
