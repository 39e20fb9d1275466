cat > Main.java <<'JAVA'
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.stream.*;

public class Main {
    static final class Node { Node next; final byte[] load; Node(Node n, int size) { next = n; load = new byte[size]; } }

    /** Makes garbage until the collector has run several times; some of it lives. */
    static long churn(int seed) {
        long sum = 0; Node kept = null;
        for (int i = 0; i < 150_000; i++) {
            Node n = new Node(i % 50 == 0 ? kept : null, 200 + (seed * i) % 300);
            if (i % 50 == 0) { kept = n; if (i % 20_000 == 0) kept = null; }
            sum += n.load.length;
        }
        for (Node n = kept; n != null; n = n.next) sum += 1;
        return sum;
    }

    static int deep(int n) { if (n == 0) throw new IllegalStateException("bottom"); return deep(n - 1) + 1; }
    static int endless(int n) { return endless(n + 1) + 1; }

    public static void main(String[] args) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> parts = new ArrayList<>();
        for (int i = 1; i <= 8; i++) { int seed = i; parts.add(pool.submit(() -> churn(seed))); }
        for (Future<Long> f : parts) System.out.println("churn " + f.get());
        Future<Integer> bad = pool.submit(() -> deep(50));
        try { bad.get(); } catch (ExecutionException e) { System.out.println(e.getCause().getMessage() + " " + e.getCause().getStackTrace().length); }
        try { endless(0); } catch (StackOverflowError e) { System.out.println("overflow"); }
        try { Object o = null; o.hashCode(); } catch (NullPointerException e) { System.out.println("null"); }
        try { long[][] all = new long[1 << 16][]; for (int i = 0; ; i++) all[i] = new long[1 << 17]; } catch (OutOfMemoryError e) { System.out.println("memory"); }
        System.out.println("stream " + IntStream.range(0, 300_000).parallel().mapToLong(i -> (long) i * i % 1009).sum());
        AtomicInteger ticks = new AtomicInteger();
        ScheduledExecutorService clock = Executors.newScheduledThreadPool(1);
        clock.scheduleAtFixedRate(ticks::incrementAndGet, 10, 20, TimeUnit.MILLISECONDS);
        while (ticks.get() < 10) Thread.sleep(5);
        clock.shutdownNow();
        Object lock = new Object(); int[] turn = {0}; StringBuilder order = new StringBuilder();
        Thread[] threads = new Thread[3];
        for (int t = 0; t < 3; t++) { int me = t; threads[t] = new Thread(() -> {
            for (int i = 0; i < 5; i++) synchronized (lock) {
                try { while (turn[0] % 3 != me) lock.wait(); } catch (InterruptedException e) { return; }
                order.append(me); turn[0]++; lock.notifyAll(); } }); threads[t].start(); }
        for (Thread t : threads) t.join();
        System.out.println("turns " + order);
        Thread sleeper = new Thread(() -> { try { Thread.sleep(100_000); } catch (InterruptedException e) { System.out.println("interrupted"); } });
        sleeper.start(); Thread.sleep(30); sleeper.interrupt(); sleeper.join();
        Process p = new ProcessBuilder("sh", "-c", "read x; echo got $x; exit 3").start();
        p.getOutputStream().write("words\n".getBytes()); p.getOutputStream().close();
        System.out.println(new String(p.getInputStream().readAllBytes()).trim() + " " + p.waitFor());
        Files.write(Path.of("out"), IntStream.range(0, 5000).mapToObj(Integer::toString).collect(Collectors.toList()));
        System.out.println("lines " + Files.readAllLines(Path.of("out")).size());
        pool.shutdown();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook")));
        System.exit(5);
    }
}
JAVA
javac -d . Main.java && java -Xmx96m -XX:+UseG1GC -Xshare:auto Main
echo "status $?"
java -Xmx96m -XX:+UseSerialGC Main | tail -1
rm -f *.class
