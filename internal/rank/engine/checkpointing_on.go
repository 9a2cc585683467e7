//go:build !gorun_nocr

package engine

// Checkpointing tells whether gate and counters are compiled in. The build tag
// gorun_nocr leaves them out, only to measure what they cost: such a program
// cannot be checkpointed and CloseGate panics.
const Checkpointing = true
