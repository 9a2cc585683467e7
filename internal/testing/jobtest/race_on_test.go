//go:build race

package jobtest_test

const raceEnabled = true
