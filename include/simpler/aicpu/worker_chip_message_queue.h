// SPDX-License-Identifier: Apache-2.0
/*
 * An orchestration's end of a queue: it receives input, which it may release in any order, and
 * sends output. A call that fails returns false; error() has the reason, unless the reason is
 * only that there is no message or no room yet.
 */
#ifndef PTO_SIMPLER_WORKER_CHIP_MESSAGE_QUEUE_H
#define PTO_SIMPLER_WORKER_CHIP_MESSAGE_QUEUE_H

#include "aicpu/worker_chip_orch_endpoint.h"

static constexpr uint64_t WORKER_CHIP_QUEUE_MAGIC_VERSION = PTO_QUEUE_MAGIC;
static constexpr uint64_t WORKER_CHIP_QUEUE_COUNTER_BYTES = PTO_QUEUE_COUNTER_BYTES;
static constexpr uint64_t WORKER_CHIP_QUEUE_MAX_DEPTH = PTO_QUEUE_DEPTH_MAX;

enum class WorkerChipQueueOpcode : uint64_t {
    INVALID = 0,
    DATA = PTO_MESSAGE_DATA,
    STOP = PTO_MESSAGE_STOP,
    ERROR = PTO_MESSAGE_ERROR,
};

enum class WorkerChipQueueErrorKind : uint32_t {
    NONE = 0,
    BAD_ARGUMENT = 1,
    BAD_DESCRIPTOR = 2,
    INVALID_DESCRIPTOR = 3,
    OUT_OF_SPACE = 4,
    OWNERSHIP = 5,
    REMOTE_ABORTED = 6,
    ENDPOINT_ERROR = 7,
};

enum class WorkerChipQueueTimeoutStatus : uint32_t { ORDINARY_TIMEOUT = 0, REMOTE_ABORTED = 1 };

enum class WorkerChipQueueOp : uint32_t {
    INIT = 1,
    TIMEOUT = 2,
    INPUT_TRY_PEEK = 3,
    INPUT_RELEASE = 4,
    OUTPUT_TRY_RESERVE = 5,
    OUTPUT_PUBLISH = 6,
};

inline const char *worker_chip_queue_op_to_string(WorkerChipQueueOp op)
{
    static const char *const names[] = { "unknown",        "init",          "timeout",
                                         "input.try_peek", "input.release", "output.try_reserve",
                                         "output.publish" };
    const uint32_t index = static_cast<uint32_t>(op);

    return names[index < sizeof(names) / sizeof(names[0]) ? index : 0];
}

struct WorkerChipQueueError {
    WorkerChipQueueErrorKind kind;
    WorkerChipQueueOp op;
    uint64_t region_id;
    char message[256];
};

// The queue's own scalars: the last six of the twelve scalars of the task.
struct WorkerChipQueueArgs {
    uint64_t magic_version;
    uint64_t depth;
    uint64_t input_arena_bytes;
    uint64_t output_arena_bytes;
    uint64_t payload_bytes;
    uint64_t counter_bytes;
};

struct WorkerChipQueueInputHandle {
    uint64_t seq;
    WorkerChipQueueOpcode opcode;
    uint64_t payload_offset;
    uint64_t payload_nbytes;
    WorkerChipOrchPayloadView payload;
};

struct WorkerChipQueueOutputReservation {
    uint64_t seq;
    uint64_t payload_offset;
    uint64_t payload_nbytes;
    WorkerChipOrchPayloadView payload;
    bool valid;
};

// At most MaxInflight messages, not counting a STOP, are in use at a time.
template <uint64_t MaxInflight = 1> class WorkerChipQueueEndpoint
{
    static_assert(MaxInflight > 0 && MaxInflight < PTO_QUEUE_ACTIVE_MAX,
                  "up to 63 messages of the input can be in use");

  public:
    class InputQueue
    {
      public:
        explicit InputQueue(WorkerChipQueueEndpoint *parent) : parent_(parent)
        {
        }
        InputQueue(const InputQueue &) = delete;
        InputQueue &operator=(const InputQueue &) = delete;

        bool peek(uint64_t timeout_ns, WorkerChipQueueInputHandle &out)
        {
            return parent_->await(timeout_ns, [&] { return try_peek(out); });
        }

        bool try_peek(WorkerChipQueueInputHandle &out)
        {
            struct pto_message m;
            int status;

            out = WorkerChipQueueInputHandle{};
            if (!parent_->is_live())
                return false;
            if (MaxInflight == 1 && parent_->queue_.in.taken != parent_->queue_.in.head)
                return parent_->fail(WorkerChipQueueErrorKind::OWNERSHIP,
                                     WorkerChipQueueOp::INPUT_TRY_PEEK,
                                     "a message of the input is in use already");
            if (is_full())
                return false;
            status = pto_queue_peek(&parent_->queue_, &m);
            if (status < 0)
                return status != PTO_EAGAIN &&
                       parent_->fail_with(status, WorkerChipQueueOp::INPUT_TRY_PEEK);
            out = WorkerChipQueueInputHandle{
                m.number, static_cast<WorkerChipQueueOpcode>(m.kind), m.offset, m.bytes,
                WorkerChipOrchPayloadView{ reinterpret_cast<uint64_t>(m.data), m.bytes }
            };
            return true;
        }

        bool release(const WorkerChipQueueInputHandle &handle)
        {
            struct pto_message m {
            };
            int status;

            if (!parent_->is_live())
                return false;
            m.number = handle.seq;
            status = pto_queue_release(&parent_->queue_, &m);
            if (status == PTO_EINVAL)
                return parent_->fail(WorkerChipQueueErrorKind::OWNERSHIP,
                                     WorkerChipQueueOp::INPUT_RELEASE, "the message is not in use");
            return status >= 0 || parent_->fail_with(status, WorkerChipQueueOp::INPUT_RELEASE);
        }

        bool drained() const
        {
            return pto_queue_is_drained(&parent_->queue_);
        }

      private:
        // Whether MaxInflight messages are in use, and the next message is not a STOP.
        bool is_full() const
        {
            struct pto_queue &q = parent_->queue_;
            const uint32_t low = static_cast<uint32_t>(
                pto_region_value(pto_region_counter(&q.region, q.in.tail_at)));

            pto_lines_fetch(pto_queue_slot(&q, &q.in, q.in.taken), PTO_QUEUE_SLOT_BYTES);
            return q.in.taken - q.in.head >= MaxInflight &&
                   (low == static_cast<uint32_t>(q.in.taken) ||
                    pto_queue_slot(&q, &q.in, q.in.taken)[1] != PTO_MESSAGE_STOP);
        }

        WorkerChipQueueEndpoint *parent_;
    };

    class OutputQueue
    {
      public:
        explicit OutputQueue(WorkerChipQueueEndpoint *parent) : parent_(parent)
        {
        }

        bool reserve(uint64_t nbytes, uint64_t timeout_ns, WorkerChipQueueOutputReservation &out)
        {
            return parent_->await(timeout_ns, [&] { return try_reserve(nbytes, out); });
        }

        bool try_reserve(uint64_t nbytes, WorkerChipQueueOutputReservation &out)
        {
            struct pto_message m;
            int status;

            out = WorkerChipQueueOutputReservation{};
            if (!parent_->is_live() || nbytes > parent_->queue_.out.arena_bytes)
                return false;
            status = pto_queue_reserve(&parent_->queue_, nbytes, &m);
            if (status == PTO_EINVAL)
                return parent_->fail(WorkerChipQueueErrorKind::OWNERSHIP,
                                     WorkerChipQueueOp::OUTPUT_TRY_RESERVE,
                                     "there is a reservation already");
            if (status < 0)
                return status != PTO_EAGAIN &&
                       parent_->fail_with(status, WorkerChipQueueOp::OUTPUT_TRY_RESERVE);
            out = WorkerChipQueueOutputReservation{
                m.number, m.offset, m.bytes,
                WorkerChipOrchPayloadView{ reinterpret_cast<uint64_t>(m.data), m.bytes }, true
            };
            return true;
        }

        bool publish(const WorkerChipQueueOutputReservation &reservation,
                     WorkerChipQueueOpcode opcode)
        {
            struct pto_message m {
            };
            int status;

            if (!parent_->is_live())
                return false;
            m.number = reservation.seq;
            m.offset = reservation.payload_offset;
            m.bytes = reservation.payload_nbytes;
            status = reservation.valid
                         ? pto_queue_publish(&parent_->queue_, &m,
                                             static_cast<enum pto_message_kind>(opcode))
                         : PTO_EINVAL;
            if (status == PTO_EINVAL)
                return parent_->fail(WorkerChipQueueErrorKind::OWNERSHIP,
                                     WorkerChipQueueOp::OUTPUT_PUBLISH,
                                     "invalid reservation, or invalid kind of output");
            return status >= 0 || parent_->fail_with(status, WorkerChipQueueOp::OUTPUT_PUBLISH);
        }

      private:
        WorkerChipQueueEndpoint *parent_;
    };

    WorkerChipQueueEndpoint(const WorkerChipOrchRegionDesc &desc, const WorkerChipQueueArgs &args)
        : input_(this), output_(this)
    {
        uint64_t scalars[PTO_QUEUE_SCALARS];

        std::memcpy(scalars, &desc, sizeof(desc));
        std::memcpy(scalars + PTO_REGION_SCALARS, &args, sizeof(args));
        region_id_ = desc.region_id;
        if (pto_queue_init(&queue_, scalars, true) < 0)
            note(WorkerChipQueueErrorKind::BAD_DESCRIPTOR, WorkerChipQueueOp::INIT,
                 "the scalars do not describe a queue");
        else if (MaxInflight > queue_.depth)
            note(WorkerChipQueueErrorKind::BAD_ARGUMENT, WorkerChipQueueOp::INIT,
                 "MaxInflight exceeds the messages of the queue");
    }
    WorkerChipQueueEndpoint(const WorkerChipQueueEndpoint &) = delete;
    WorkerChipQueueEndpoint &operator=(const WorkerChipQueueEndpoint &) = delete;

    const WorkerChipQueueError &error() const
    {
        return error_;
    }
    InputQueue &input()
    {
        return input_;
    }
    OutputQueue &output()
    {
        return output_;
    }

    // Called after a time-out: returns whether the host has aborted the queue.
    WorkerChipQueueTimeoutStatus disambiguate_timeout()
    {
        if (is_live() && (pto_queue_is_aborted(&queue_) || pto_region_is_closed(&queue_.region)))
            note(WorkerChipQueueErrorKind::REMOTE_ABORTED, WorkerChipQueueOp::TIMEOUT,
                 "the host has given up");
        return error_.kind == WorkerChipQueueErrorKind::REMOTE_ABORTED
                   ? WorkerChipQueueTimeoutStatus::REMOTE_ABORTED
                   : WorkerChipQueueTimeoutStatus::ORDINARY_TIMEOUT;
    }

  private:
    bool is_live() const
    {
        return error_.kind == WorkerChipQueueErrorKind::NONE;
    }

    void note(WorkerChipQueueErrorKind kind, WorkerChipQueueOp op, const char *message)
    {
        if (!is_live())
            return;
        error_ = WorkerChipQueueError{ kind, op, region_id_, "" };
        std::snprintf(error_.message, sizeof(error_.message), "%s", message);
    }

    // Aborts the queue, which notifies the host. Returns false.
    bool fail(WorkerChipQueueErrorKind kind, WorkerChipQueueOp op, const char *message)
    {
        note(kind, op, message);
        (void)pto_queue_abort(&queue_, PTO_ECANCELED);
        return false;
    }

    bool fail_with(int status, WorkerChipQueueOp op)
    {
        if (status != PTO_EPEER)
            return fail(WorkerChipQueueErrorKind::INVALID_DESCRIPTOR, op,
                        "the host wrote an invalid message");
        note(WorkerChipQueueErrorKind::REMOTE_ABORTED, op, "the host has given up");
        return false;
    }

    // Repeats an attempt until it succeeds or the time is over, while tasks of the run continue.
    template <typename Try> bool await(uint64_t timeout_ns, Try attempt)
    {
        const uint64_t begin_ns = pto_region_now_ns();

        while (!attempt()) {
            if (!is_live())
                return false;
            if (pto_orch_listen(simpler::runtime) < 0) {
                note(WorkerChipQueueErrorKind::ENDPOINT_ERROR, WorkerChipQueueOp::TIMEOUT,
                     "the run has failed");
                return false;
            }
            if (disambiguate_timeout() == WorkerChipQueueTimeoutStatus::REMOTE_ABORTED ||
                pto_region_now_ns() - begin_ns >= timeout_ns)
                return false;
        }
        return true;
    }

    struct pto_queue queue_ {
    };
    uint64_t region_id_{ 0 };
    WorkerChipQueueError error_{};
    InputQueue input_;
    OutputQueue output_;
};

#endif
