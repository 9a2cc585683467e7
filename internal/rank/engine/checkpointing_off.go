//go:build gorun_nocr

package engine

// Checkpointing is false: built without gate and counters, for measuring.
const Checkpointing = false
