// An in-memory Pub/Sub on one address of this machine, for tests: Google's own, made for those.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"cloud.google.com/go/pubsub/pstest"
)

func main() {
	server := pstest.NewServerWithAddress(os.Args[1])
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, os.Interrupt)
	<-ended
	server.Close()
}
