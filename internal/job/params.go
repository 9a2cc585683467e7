package job

// Params are the parameters of modules that the job was started with, or
// restarted. They are not to be changed.
func (j *Job) Params() map[string]string { return j.start.Load().Params }
