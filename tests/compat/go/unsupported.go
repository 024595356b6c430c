package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// unsupported joins a share group on a server without share groups and prints the error of the poll.
func (t *tour) unsupported() {
	client := t.client(kgo.ShareGroup(t.group), kgo.ConsumeTopics(t.topic))
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	fmt.Println(client.PollFetches(ctx).Err())
}
