// Package memory keeps a gateway process as small as its idle sessions are.
//
// A login storm leaves garbage and free pages behind, and a process that is idle afterwards
// allocates too little to collect them: what is resident for each session would be what the storm
// needed. Trim collects and gives back while the process has little else to do; a busy one is left
// to the runtime's own pace. It works on the whole process: start it in a main function.
package memory
