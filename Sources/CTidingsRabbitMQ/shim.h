#ifndef TIDINGS_RABBITMQ_SHIM_H
#define TIDINGS_RABBITMQ_SHIM_H

// Before amqp.h, which only declares the name: Swift would see an opaque pointer.
#include <sys/time.h>

#include <amqp.h>
#include <amqp_framing.h>
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>

#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/// amqp_login_with_properties() with a name and a password: the function is variadic.
static inline amqp_rpc_reply_t tidings_amqp_login_plain(
    amqp_connection_state_t state, const char *vhost, int channel_max, int frame_max, int heartbeat,
    const amqp_table_t *properties, const char *user, const char *password) {
    return amqp_login_with_properties(
        state, vhost, channel_max, frame_max, heartbeat, properties, AMQP_SASL_METHOD_PLAIN, user, password);
}

/// amqp_login_with_properties() with the identity of the client's certificate.
static inline amqp_rpc_reply_t tidings_amqp_login_external(
    amqp_connection_state_t state, const char *vhost, int channel_max, int frame_max, int heartbeat,
    const amqp_table_t *properties, const char *identity) {
    return amqp_login_with_properties(
        state, vhost, channel_max, frame_max, heartbeat, properties, AMQP_SASL_METHOD_EXTERNAL, identity);
}

/// Names the calling thread for debuggers and `ps`: prctl() is variadic.
static inline void tidings_amqp_name_thread(const char *name) { prctl(PR_SET_NAME, name, 0, 0, 0); }

#endif
