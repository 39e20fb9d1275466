/* C++ exceptions: thrown in one thread and caught in another, thousands at once, out of futures, by the library,
 * through noexcept. The unwinder reads tables of every mapped library, and a move replaces all of these mappings. About
 * 1 s. */
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <mutex>
#include <queue>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

struct Odd : std::runtime_error {
    int n;
    explicit Odd(int n) : std::runtime_error("odd " + std::to_string(n)), n(n) {}
};

static thread_local int unwound;

struct Frame {
    ~Frame() { unwound++; }
};

/* Throws from the bottom of `depth` frames when n is odd. */
__attribute__((noinline)) static int deep(int n, int depth) {
    Frame frame;
    if (depth == 0) {
        if (n & 1) throw Odd(n);
        return n;
    }
    return deep(n, depth - 1) + (n & 1 ? 0 : 1);
}

static std::string across(int n) {
    std::exception_ptr caught;
    int frames = 0;
    std::thread thrower([&] {
        try {
            std::this_thread::sleep_for(20ms);
            deep(n, 40);
        } catch (...) {
            caught = std::current_exception();
            frames = unwound;
        }
    });
    thrower.join();
    if (!caught) return "none";
    try {
        std::rethrow_exception(caught);
    } catch (const Odd &odd) {
        return odd.what() + std::string(" after ") + std::to_string(frames);
    }
}

class Queue {
    std::mutex lock;
    std::condition_variable change;
    std::queue<int> items;
    bool closed = false;

  public:
    void put(int n) {
        { std::lock_guard hold(lock); items.push(n); }
        change.notify_one();
    }
    void close() {
        { std::lock_guard hold(lock); closed = true; }
        change.notify_all();
    }
    bool get(int &n) {
        std::unique_lock hold(lock);
        change.wait(hold, [&] { return closed || !items.empty(); });
        if (items.empty()) return false;
        n = items.front();
        items.pop();
        return true;
    }
};

static void futures() {
    std::vector<std::future<int>> all;
    for (int i = 0; i < 16; i++)
        all.push_back(std::async(std::launch::async, [i] {
            std::this_thread::sleep_for(std::chrono::milliseconds(i * 7 % 40));
            return deep(i, 100);
        }));
    int sum = 0, odd = 0;
    for (auto &one : all) try { sum += one.get(); } catch (const Odd &e) { odd += e.n; }
    printf("futures %d %d\n", sum, odd);
}

static void many() {
    std::atomic<long> caught{0}, quiet{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++)
        threads.emplace_back([&, t] {
            for (int i = 0; i < 20000; i++)
                try {
                    quiet += deep(i * 4 + t, 12) > 0;
                } catch (const std::exception &) {
                    caught++;
                }
        });
    for (auto &t : threads) t.join();
    printf("caught %ld quiet %ld\n", caught.load(), quiet.load());
}

static void queue() {
    Queue queue;
    std::atomic<long> total{0};
    std::vector<std::thread> takers;
    for (int t = 0; t < 3; t++)
        takers.emplace_back([&] {
            for (int n; queue.get(n);) try { deep(n, 3); total += n; } catch (const Odd &e) { total -= e.n; }
        });
    for (int i = 0; i < 3000; i++) {
        queue.put(i);
        if (i % 300 == 0) std::this_thread::sleep_for(20ms);
    }
    queue.close();
    for (auto &t : takers) t.join();
    printf("total %ld\n", total.load());
}

int main() {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    for (int n = 0; n < 12; n++) printf("%d: %s\n", n, across(n).c_str());
    futures();
    many();
    queue();
    std::promise<int> promise;
    auto broken = promise.get_future();
    { auto gone = std::move(promise); }
    try { broken.get(); } catch (const std::future_error &e) { printf("future_error %d\n", e.code().value()); }
    try { std::vector<int>(1).at(5); } catch (const std::out_of_range &) { puts("out_of_range"); }
    try { std::vector<char> v; v.resize(v.max_size()); } catch (const std::bad_alloc &) { puts("bad_alloc"); }
    try { try { deep(3, 3); } catch (...) { std::throw_with_nested(Odd(5)); } }
    catch (const Odd &e) { try { std::rethrow_if_nested(e); } catch (const Odd &inner) { printf("nested %d in %d\n", inner.n, e.n); } }
    std::set_terminate([] { puts("terminate"); fflush(stdout); _Exit(9); });
    std::thread([]() noexcept { deep(1, 2); }).join();
}
