package job

// Params are the parameters of modules that the job was started with, or
// restarted. They are not to be changed.
func (j *Job) Params() map[string]string { return j.start.Load().Params }

// Crowded reports whether some machine has more ranks than CPUs. All ranks of an
// incarnation get the same answer.
func (j *Job) Crowded() bool { return j.start.Load().Crowded }
