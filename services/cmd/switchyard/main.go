// Command switchyard runs the whole suite in one process (`up`), and is the operator's tool.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/switchyard-io/switchyard/services"
	"github.com/switchyard-io/switchyard/services/bench"
	"github.com/switchyard-io/switchyard/services/operator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the second signal kills
	root := operator.Root()
	root.AddCommand(services.Command(), bench.Command())
	os.Exit(operator.Execute(ctx, root, os.Args[1:]))
}
