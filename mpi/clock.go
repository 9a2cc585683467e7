package mpi

import "time"

var clockStart = time.Now()

// Wtime returns seconds since some moment in this process's past. Changes of the system's clock do not affect
// it. Clocks of different ranks are unrelated. (MPI-4.1, chapter 9.6)
func Wtime() float64 { return time.Since(clockStart).Seconds() }

// Wtick returns the resolution of Wtime in seconds. (MPI-4.1, chapter 9.6)
func Wtick() float64 { return 1e-9 }
