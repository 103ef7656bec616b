// What a program needs: one import.
@_exported public import HistoryMessaging
@_exported public import LocalContexts
@_exported public import PersistentHistory
@_exported public import TidingsAMQP
@_exported public import TidingsSQLite
@_exported public import TidingsServices
