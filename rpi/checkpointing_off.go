//go:build gorun_nocr

package rpi

// Checkpointing is false: built without gate and counters, for measuring.
const Checkpointing = false
